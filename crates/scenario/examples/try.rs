//! scratch
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let text = std::fs::read_to_string(&args[1]).unwrap();
    let mut base = sakiyomi_scenario::Scenario::from_toml(&text, &args[1]).unwrap_or_else(|e| panic!("{e}"));
    let mut limits = vec!["off".to_string()];
    for arg in &args[2..] {
        let (k, v) = arg.split_once('=').unwrap();
        if k == "limits" {
            limits = v.split(',').map(str::to_string).collect();
            continue;
        }
        base.set(k, v).unwrap_or_else(|e| panic!("{e}"));
    }
    for limit in limits {
        let mut s = base.clone();
        s.set("prefetch.limit", &limit).unwrap();
        let drive = s.drive.model.as_ref().map(|name| sakiyomi_drive::spec::builtin(name).unwrap().spec());
        let t = std::time::Instant::now();
        let o = sakiyomi_scenario::run(&s, drive.as_ref(), 0).unwrap();
        for p in &o.processes {
            println!(
                "{limit:>8} {} elapsed {:.2} ran {:.2} wait_r {:.2} wait_w {:.2} reading {:.2} pref {} MB wasted {} MB dist {} state {:?} [{:?}]",
                p.name,
                p.elapsed.as_secs_f64(),
                p.ran.as_secs_f64(),
                p.waited_read.as_secs_f64(),
                p.waited_write.as_secs_f64(),
                p.reading.as_secs_f64(),
                p.prefetched_bytes / 1000000,
                p.wasted_bytes / 1000000,
                p.distances.longest,
                p.state,
                t.elapsed()
            );
        }
        if let Some(u) = o.usage {
            println!("      {:?}", u);
        }
    }
}
