//! Starting points of the local search, and the single changes that it tries.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::Model;
use crate::model::constraints::Pin;
use crate::plan::parts::Part;

/// Returns topological orders cut into at most `cores` parts of about equal load, on domains filled one by one.
pub(super) fn balanced(model: &Model<'_>, cores: usize) -> Vec<Vec<Part>> {
    if !model.constraints.has_no_pins() {
        return vec![pinned(model)];
    }
    let mut orders = vec![(0..model.pipeline.operators().len()).collect(), depth_first(model)];
    orders.dedup();
    let mut starts: Vec<Vec<Part>> = orders.iter().map(|order| cut(model, order, cores)).collect();
    starts.dedup();
    starts
}

/// Returns the plan with all operators on the cores of pinned ones.
fn pinned(model: &Model<'_>) -> Vec<Part> {
    let blocks = model.constraints.blocks(model.pipeline).expect("the constraints were checked");
    let mut operators: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    blocks
        .into_iter()
        .enumerate()
        .for_each(|(operator, core)| operators.entry(core).or_default().push(operator));
    operators.into_iter().map(|(core, operators)| part(operators, model.topology.domain_of(core))).collect()
}

/// Returns operators in depth-first order: each is followed by its receivers as soon as all their inputs are placed.
fn depth_first(model: &Model<'_>) -> Vec<usize> {
    fn visit(model: &Model<'_>, operator: usize, order: &mut Vec<usize>) {
        let is_placed = |edge: &usize| order.contains(&model.pipeline.edges()[*edge].from);
        if order.contains(&operator) || !model.pipeline.incoming(operator).iter().all(is_placed) {
            return;
        }
        order.push(operator);
        for &edge in model.pipeline.outgoing(operator) {
            visit(model, model.pipeline.edges()[edge].to, order);
        }
    }
    let mut order = Vec::new();
    (0..model.pipeline.operators().len()).for_each(|operator| visit(model, operator, &mut order));
    order
}

fn cut(model: &Model<'_>, order: &[usize], cores: usize) -> Vec<Part> {
    let flows = model.flows();
    let load = |operator: usize| flows[operator] * model.pipeline.operators()[operator].service_ns;
    let share = order.iter().map(|&operator| load(operator)).sum::<f64>() / cores as f64;
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); cores];
    let mut before = 0.0;
    for &operator in order {
        let middle = before + load(operator) / 2.0;
        groups[((middle / share) as usize).min(cores - 1)].push(operator);
        before += load(operator);
    }
    let room = model.constraints.room(model.topology);
    let mut domains: Vec<usize> = (0..room.len()).collect();
    domains.sort_by_key(|&domain| Reverse(room[domain]));
    let domains = domains.into_iter().flat_map(|domain| vec![domain; room[domain]]);
    let groups = groups.into_iter().filter(|operators| !operators.is_empty());
    groups.zip(domains).map(|(operators, domain)| part(operators, domain)).collect()
}

fn part(mut operators: Vec<usize>, domain: usize) -> Part {
    operators.sort_unstable();
    Part { operators, domain, replicas: 1 }
}

/// Returns all plans that result from a single change of `parts`, on at most `cores` cores and within the cores of
/// each domain. Some may send in a cycle.
pub(super) fn all(model: &Model<'_>, parts: &[Part], cores: usize) -> Vec<Vec<Part>> {
    let mut changes = Vec::new();
    for from in 0..parts.len() {
        for &operator in &parts[from].operators {
            move_operator(model, parts, from, operator, &mut changes);
        }
        for other in 0..parts.len() {
            if other != from {
                join(parts, from, other, &mut changes);
            }
        }
        reshape(model, parts, from, &mut changes);
    }
    changes.retain_mut(|changed| is_allowed(model, changed, cores));
    changes
}

/// Adds the plans with one operator moved to another part or to a new one in any domain, or exchanged with one of a
/// later part; and with all operators of a part from this one on moved to a new part.
fn move_operator(
    model: &Model<'_>,
    parts: &[Part],
    from: usize,
    operator: usize,
    changes: &mut Vec<Vec<Part>>,
) {
    let mut without = parts.to_vec();
    without[from].operators.retain(|&other| other != operator);
    for to in (0..parts.len()).filter(|&to| to != from) {
        let mut moved = without.clone();
        insert(&mut moved[to], operator);
        changes.push(moved);
        for &other in parts[to].operators.iter().filter(|_| to > from) {
            let mut exchanged = without.clone();
            exchanged[to].operators.retain(|&kept| kept != other);
            insert(&mut exchanged[to], operator);
            insert(&mut exchanged[from], other);
            changes.push(exchanged);
        }
    }
    for domain in 0..model.topology.domains().len() {
        let mut alone = without.clone();
        alone.push(part(vec![operator], domain));
        changes.push(alone);
        let (head, tail): (Vec<usize>, Vec<usize>) =
            parts[from].operators.iter().partition(|&&other| other < operator);
        let mut split = parts.to_vec();
        split[from].operators = head;
        split.push(part(tail, domain));
        changes.push(split);
    }
}

/// Adds the plans with two parts merged, on the cores of the second, or with their domains exchanged.
fn join(parts: &[Part], from: usize, to: usize, changes: &mut Vec<Vec<Part>>) {
    let mut merged = parts.to_vec();
    let operators = std::mem::take(&mut merged[from].operators);
    operators.into_iter().for_each(|operator| insert(&mut merged[to], operator));
    changes.push(merged);
    if from < to && parts[from].domain != parts[to].domain {
        let mut exchanged = parts.to_vec();
        (exchanged[from].domain, exchanged[to].domain) = (parts[to].domain, parts[from].domain);
        changes.push(exchanged);
    }
}

/// Adds the plans with a part in another domain, or with a replica more or fewer.
fn reshape(model: &Model<'_>, parts: &[Part], index: usize, changes: &mut Vec<Vec<Part>>) {
    for domain in (0..model.topology.domains().len()).filter(|&domain| domain != parts[index].domain) {
        let mut moved = parts.to_vec();
        moved[index].domain = domain;
        changes.push(moved);
    }
    for replicas in [parts[index].replicas - 1, parts[index].replicas + 1] {
        let mut replicated = parts.to_vec();
        replicated[index].replicas = replicas;
        changes.push(replicated);
    }
}

fn insert(part: &mut Part, operator: usize) {
    let at = part.operators.partition_point(|&other| other < operator);
    part.operators.insert(at, operator);
}

/// Removes empty parts; returns whether the rest is within the limits.
fn is_allowed(model: &Model<'_>, parts: &mut Vec<Part>, cores: usize) -> bool {
    parts.retain(|part| !part.operators.is_empty());
    let mut left = model.constraints.room(model.topology);
    for part in parts.iter_mut() {
        match model.constraints.pin_of(&part.operators) {
            Pin::Torn => return false,
            Pin::Core(_) if part.replicas != 1 => return false,
            Pin::Core(core) => {
                part.domain = model.topology.domain_of(core);
                continue;
            }
            Pin::Open => {}
        }
        if part.replicas == 0
            || part.replicas > left[part.domain]
            || model.pipeline.max_share(&part.operators, part.replicas).is_none()
        {
            return false;
        }
        left[part.domain] -= part.replicas;
    }
    parts.iter().map(|part| part.replicas).sum::<usize>() <= cores
}
