//! The position of every sector equals that of the naive list of sectors, in both directions.

use proptest::prelude::*;
use sakiyomi_drive::Geometry;
use sakiyomi_model::{Lba, Nanos};

use crate::generate;
use crate::platter::Platter;

/// Returns the number of contiguous sectors from `lba` on, and before it.
fn row(platter: &Platter, lba: u64) -> (u64, u64) {
    let after = (lba..).take_while(|at| platter.goes_on(*at)).count() as u64;
    let before = (0..lba).rev().take_while(|at| platter.goes_on(*at)).count() as u64;
    (1 + after, before)
}

proptest! {
    #![proptest_config(crate::cases(96))]

    #[test]
    fn every_address_lies_where_counting_puts_it(spec in generate::drive(), limit in 1u64..40) {
        let (platter, geometry) = (Platter::new(&spec), Geometry::new(&spec.geometry, &spec.servo));
        prop_assert_eq!(geometry.capacity().0, platter.capacity());
        prop_assert_eq!(geometry.revolution(), Nanos(platter.revolution));
        prop_assert_eq!(geometry.cylinders(), platter.cylinders);
        for (lba, sector) in platter.sectors.iter().enumerate() {
            let run = geometry.run(Lba(lba as u64), u64::MAX);
            prop_assert_eq!((run.cylinder, run.head), (sector.cylinder, sector.head), "{}", lba);
            prop_assert_eq!((u64::from(run.first), u64::from(run.track_sectors)), (sector.number, sector.track_sectors));
            prop_assert_eq!((run.track_angle.0, run.angle.0), (sector.track_angle, sector.angle), "{}", lba);
            let (after, before) = row(&platter, lba as u64);
            prop_assert_eq!((u64::from(run.sectors), u64::from(run.before)), (after, before), "{}", lba);
            prop_assert_eq!(u64::from(geometry.run(Lba(lba as u64), limit).sectors), after.min(limit));
        }
    }

    #[test]
    fn every_place_holds_the_address_that_lies_there_or_none(spec in generate::drive()) {
        let (platter, geometry) = (Platter::new(&spec), Geometry::new(&spec.geometry, &spec.servo));
        let tracks = (0..=platter.cylinders).flat_map(|cylinder| (0..=spec.geometry.heads).map(move |head| (cylinder, head)));
        for (cylinder, head) in tracks {
            for number in 0..=24 {
                let here = |s: &crate::platter::Sector| (s.cylinder, s.head, s.number) == (cylinder, head, number);
                let expected = platter.sectors.iter().position(here).map(|lba| Lba(lba as u64));
                let found = geometry.lba_at(cylinder, head, number as u32);
                prop_assert_eq!(found, expected, "cylinder {} head {} sector {}", cylinder, head, number);
            }
        }
    }

    #[test]
    fn tracks_and_cylinders_end_where_the_next_address_is_on_another_one(spec in generate::drive()) {
        let (platter, geometry) = (Platter::new(&spec), Geometry::new(&spec.geometry, &spec.servo));
        let serpentine = spec.geometry.layout == sakiyomi_drive::spec::Layout::Serpentine;
        for lba in 0..platter.capacity() {
            let home = platter.sectors[lba as usize];
            let rest = |same: &dyn Fn(&crate::platter::Sector) -> bool| {
                lba + platter.sectors[lba as usize..].iter().take_while(|sector| same(sector)).count() as u64
            };
            let track = rest(&|sector| sector.home_track == home.home_track);
            // Tracks of a serpentine cylinder are not adjacent in address order, so its end is the track's.
            let cylinder = if serpentine { track } else { rest(&|sector| sector.home_cylinder == home.home_cylinder) };
            prop_assert_eq!(geometry.end_of(Lba(lba), false), Lba(track), "track of {}", lba);
            prop_assert_eq!(geometry.end_of(Lba(lba), true), Lba(cylinder), "cylinder of {}", lba);
        }
    }
}
