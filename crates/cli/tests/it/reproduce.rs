//! `reproduce`.

use std::fs;

use crate::scratch::Scratch;

#[test]
fn figures_of_a_paper_stand_beside_the_published_ones_and_an_interrupted_run_goes_on() {
    let scratch = Scratch::new("reproduce");
    let whole = scratch.ok("reproduce hitachi2013 --simulate-only --out whole --json");
    let json: serde_json::Value = serde_json::from_str(&whole).unwrap();
    let figures = json["result"]["papers"][0]["figures"].as_array().unwrap();
    let hit = figures.iter().find(|figure| figure["id"] == "long.hit").unwrap();
    assert_eq!(hit["published"], 72.4);
    assert!((hit["simulated"]["median"].as_f64().unwrap() - 72.4).abs() < 1.5, "{hit}");
    assert!(!scratch.0.join("whole/simulations.partial").exists(), "a whole run leaves no partial results");

    // An interrupted run, whose last line was cut off.
    let version = scratch.ok("--version");
    let version = version.trim().strip_prefix("sakiyomi ").unwrap();
    fs::create_dir(scratch.0.join("partial")).unwrap();
    let kept = r#"["hitachi2013/run/long#0001",{"hit_percent":72.0,"seeks":123456.0}]"#;
    let partial = format!("sakiyomi {version}\n{kept}\n[\"hitachi2013/run/long#00");
    fs::write(scratch.0.join("partial/simulations.partial"), &partial).unwrap();
    let resumed = scratch.ok("reproduce hitachi2013 --simulate-only --out partial --json");
    assert!(resumed.contains("123456"), "what was kept is not simulated again");

    // One of another version is not used.
    fs::write(scratch.0.join("partial/simulations.partial"), partial.replacen(version, "0.0.1", 1)).unwrap();
    let anew = scratch.ok("reproduce hitachi2013 --simulate-only --out partial --json");
    let result = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["result"].clone();
    assert_eq!(result(&anew), result(&whole));
}

/// Live figures stand beside the others where this machine allows it, and else there is a reason.
#[test]
fn a_live_figure_is_measured_or_left_out_with_the_reason() {
    let scratch = Scratch::new("reproduce_live");
    let result = scratch.ok("reproduce hitachi2013 waseda2013 --json");
    let json: serde_json::Value = serde_json::from_str(&result).unwrap();
    for (paper, id) in [(0, "show.throughput"), (0, "query1.aio"), (0, "phase.2"), (1, "long.hit")] {
        let paper = &json["result"]["papers"][paper];
        let figures = paper["figures"].as_array().unwrap();
        let figure = figures.iter().find(|figure| figure["id"] == id).unwrap();
        let sentences: Vec<&str> =
            paper["live"].as_array().unwrap().iter().map(|sentence| sentence.as_str().unwrap()).collect();
        match figure["live"]["median"].as_f64() {
            Some(median) => assert!(median > 0.0 && median.is_finite(), "{figure}"),
            None => assert!(sentences.iter().any(|said| said.starts_with("Left out: ")), "{sentences:?}"),
        }
    }
    let hit = &json["result"]["papers"][1]["figures"][0];
    if let Some(live) = hit["live"]["median"].as_f64() {
        // Six hundred commands of 11,500, in real time.
        let simulated = hit["simulated"]["median"].as_f64().unwrap();
        assert!((live - simulated).abs() < 10.0, "{hit}");
    }
}

#[test]
fn without_live_experiments_the_result_has_simulated_figures_only() {
    let scratch = Scratch::new("reproduce_simulated");
    let [first, second] = [(); 2].map(|()| {
        let result = scratch.ok("reproduce waseda2013 --simulate-only --json --quiet");
        serde_json::from_str::<serde_json::Value>(&result).unwrap()["result"].clone()
    });
    assert_eq!(first, second);
    let paper = &first["papers"][0];
    assert!(paper.get("live").is_none(), "{paper}");
    assert!(paper["figures"].as_array().unwrap().iter().all(|figure| figure.get("live").is_none()));
}

#[test]
fn a_paper_that_is_not_known_is_refused_with_the_names() {
    let scratch = Scratch::new("reproduce_unknown");
    let said = scratch.refused("reproduce hitachi2012");
    assert!(said.contains("hitachi2012") && said.contains("hitachi2013"), "{said}");
}
