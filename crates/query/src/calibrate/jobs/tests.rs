use sakiyomi_testing::Scratch;

use super::*;
use crate::cost::operators::{Codec, CodecCost, FileFormat, ValueCost};
use crate::cost::tests::machines::{DeviceSpec, operators};

#[test]
fn all_jobs_run_and_are_compared_and_leave_no_file() {
    let (first, second) = (Scratch::new("calibrate-first"), Scratch::new("calibrate-second"));
    let device = DeviceSpec::fast().calibrated();
    let sites = [&first, &second].map(|scratch| Site { directory: scratch.root(), device: &device });
    let mut costs = operators(2, &mut || 1.0);
    // The tables of the jobs in Arrow have the costs of those in Parquet here.
    for values in [&mut costs.decode, &mut costs.encode] {
        let arrow = values.clone().into_iter().map(|cost| ValueCost { format: FileFormat::Arrow, ..cost });
        values.extend(arrow.collect::<Vec<_>>());
    }
    let lz4 = costs.codecs[0];
    costs.codecs.push(CodecCost { codec: Codec::Snappy, ..lz4 });
    let mut begun = Vec::new();
    measure(Effort::Glance, &mut costs, &sites, &mut |step| {
        begun.push(step);
        Ok(())
    })
    .unwrap();
    assert_eq!(begun, steps(2));
    let runs_of_device = (JOB_RUNS * CASES.len()) as u64;
    assert_eq!((costs.corrections.jobs, costs.fault()), (2 * runs_of_device, None));
    let of_devices: Vec<u64> = costs.device_corrections.iter().map(|found| found.corrections.jobs).collect();
    assert_eq!(of_devices, [runs_of_device; 2]);
    for scratch in [first, second] {
        assert_eq!(fs::read_dir(scratch.root()).unwrap().count(), 0);
    }
}

#[test]
fn a_calibration_that_is_cancelled_leaves_no_file() {
    let scratch = Scratch::new("calibrate-cancelled");
    let device = DeviceSpec::fast().calibrated();
    let site = Site { directory: scratch.root(), device: &device };
    let mut begun = 0;
    let ended = measure(Effort::Glance, &mut operators(2, &mut || 1.0), &[site], &mut |_| {
        begun += 1;
        if begun < 4 { Ok(()) } else { Err(Error::Cancelled) }
    });
    assert!(matches!(ended, Err(Error::Cancelled)));
    assert_eq!(fs::read_dir(scratch.root()).unwrap().count(), 0);
}

#[test]
fn a_directory_that_cannot_be_written_to_is_an_error_that_names_it() {
    let device = DeviceSpec::fast().calibrated();
    let site = Site { directory: Path::new("/nowhere"), device: &device };
    let error =
        measure(Effort::Glance, &mut operators(2, &mut || 1.0), &[site], &mut |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("/nowhere"), "{error}");
}
