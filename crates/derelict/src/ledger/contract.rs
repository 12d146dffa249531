//! What every store promises, checked on real ones: their own tests call this. Nothing here is part of the product.

use std::path::{Path, PathBuf};

use derelict_core::outcome::FateName;

use crate::ledger::samples::{began, directory, id, many, sweep, three};
use crate::ledger::{Fates, Filter, Head, Ledger, Place};
use crate::reaper::record::{DirectoryRecord, SweepRecord};

/// Checks all of it. `open` opens the same store, which is empty at first, again and again.
pub(crate) fn holds(open: &mut dyn FnMut() -> Box<dyn Ledger>) {
    nothing_is_known_of_what_never_was(&mut *open());
    everything_comes_back_as_it_was(open);
    sweeps_are_told_newest_first_and_as_asked_for(&mut *open());
    a_path_is_found_in_every_sweep_that_saw_it(&mut *open());
    near_misses_have_their_own_view(&mut *open());
    what_is_old_is_forgotten_with_its_directories(&mut *open());
    many_directories_are_kept_in_their_order(&mut *open());
    sweeps_of_one_second_are_told_in_their_order(&mut *open());
}

fn sweeps_of_one_second_are_told_in_their_order(ledger: &mut dyn Ledger) {
    let mut pair = [sweep(70_000, vec![directory(b"twice", FateName::Removed)]), sweep(70_000, Vec::new())];
    pair[0].began = derelict_core::ids::Timestamp::new(pair[0].began.seconds(), 900);
    pair[1].id.push('f');
    pair[1].directories = pair[0].directories.clone();
    for sweep in &pair {
        ledger.record(sweep).unwrap();
    }
    let told: Vec<String> = ledger.sweeps(&Filter::ALL, 2).unwrap().into_iter().map(|head| head.id).collect();
    assert_eq!(told, [pair[0].id.clone(), pair[1].id.clone()]);
    let seen = ledger.sightings(Place::At(&["/srv/ws/twice".into()]), &Filter::ALL).unwrap();
    let told: Vec<&String> = seen.iter().map(|sighting| &sighting.head.id).collect();
    assert_eq!(told, [&pair[0].id, &pair[1].id]);
}

fn whole(ledger: &mut dyn Ledger, id: &str) -> Option<SweepRecord> {
    let head = ledger.sweep(id).unwrap()?;
    Some(head.with(directories(ledger, id, Fates::Any)))
}

fn directories(ledger: &mut dyn Ledger, id: &str, fates: Fates) -> Vec<DirectoryRecord> {
    let mut all = Vec::new();
    ledger.directories(id, fates, &mut |directory| all.push(directory)).unwrap();
    all
}

fn nothing_is_known_of_what_never_was(ledger: &mut dyn Ledger) {
    assert!(ledger.known().unwrap().is_empty());
    assert_eq!(ledger.sweeps(&Filter::ALL, 10).unwrap(), []);
    assert_eq!(ledger.sweep(&id(0)).unwrap(), None);
    assert_eq!(ledger.last("agents").unwrap(), None);
    assert_eq!(directories(ledger, &id(0), Fates::Any), []);
    assert_eq!(ledger.sightings(Place::Anywhere, &Filter::ALL).unwrap(), []);
    assert_eq!(ledger.forget_before(began(9)).unwrap(), 0);
}

fn everything_comes_back_as_it_was(open: &mut dyn FnMut() -> Box<dyn Ledger>) {
    for sweep in three() {
        open().record(&sweep).unwrap();
        // Once more, as after a crash between the record and the store.
        open().record(&sweep).unwrap();
    }
    let mut ledger = open();
    for sweep in three() {
        assert_eq!(whole(&mut *ledger, &sweep.id), Some(sweep));
    }
    assert_eq!(ledger.known().unwrap(), [id(0), id(1), id(2)].into());
}

fn sweeps_are_told_newest_first_and_as_asked_for(ledger: &mut dyn Ledger) {
    let heads = three().map(|sweep| Head::of(&sweep));
    let [first, other, last] = heads.clone();
    assert_eq!(ledger.sweeps(&Filter::ALL, u64::MAX).unwrap(), [last.clone(), other.clone(), first.clone()]);
    assert_eq!(ledger.sweeps(&Filter::ALL, 2).unwrap(), [last.clone(), other.clone()]);
    let root = |root: &str| Filter { root: Some(root.into()), ..Filter::ALL };
    assert_eq!(ledger.sweeps(&root("odd \"root\""), 9).unwrap(), [other]);
    assert_eq!(ledger.sweeps(&root("nobody"), 9).unwrap(), []);
    let since = |number| Filter { since: Some(began(number)), ..Filter::ALL };
    assert_eq!(ledger.sweeps(&since(2), 9).unwrap(), std::slice::from_ref(&last));
    let just_after = Filter { since: Some(began(2).after(std::time::Duration::from_nanos(1))), ..Filter::ALL };
    assert_eq!(ledger.sweeps(&just_after, 9).unwrap(), []);
    let removed = Filter { fates: Fates::REMOVED, ..Filter::ALL };
    assert_eq!(ledger.sweeps(&removed, 9).unwrap(), [last.clone(), first]);
    assert_eq!(ledger.last("agents").unwrap(), Some(last));
    for filter in [Filter::ALL, root("agents"), since(1), removed] {
        let asked = ledger.sweeps(&filter, 9).unwrap();
        let chosen: Vec<Head> = heads.iter().rev().filter(|head| filter.includes(head)).cloned().collect();
        assert_eq!(asked, chosen, "{filter:?}");
    }
}

fn a_path_is_found_in_every_sweep_that_saw_it(ledger: &mut dyn Ledger) {
    let [first, _, last] = three();
    let odd = first.directories[0].clone();
    let removed = last.directories[13].clone();
    assert_eq!((odd.fate, removed.fate), (FateName::Removed, FateName::Removed));
    let paths = [odd.path.clone(), removed.path.clone(), PathBuf::from("/srv/ws")];
    let found = ledger.sightings(Place::At(&paths), &Filter::ALL).unwrap();
    let found: Vec<_> = found.into_iter().map(|sighting| (sighting.head, sighting.directory)).collect();
    assert_eq!(found, [(Head::of(&last), removed), (Head::of(&first), odd)]);
    let near = Filter { fates: Fates::NEAR_MISSES, ..Filter::ALL };
    assert_eq!(ledger.sightings(Place::At(&paths), &near).unwrap(), []);
    let mut many: Vec<PathBuf> = (0..1_234).map(|n| Path::new("/nowhere").join(n.to_string())).collect();
    many.extend(paths);
    assert_eq!(ledger.sightings(Place::At(&many), &Filter::ALL).unwrap().len(), 2);
}

fn near_misses_have_their_own_view(ledger: &mut dyn Ledger) {
    let saved = directory(b"saved", FateName::RetainedResurrected);
    ledger.record(&sweep(3, vec![directory(b"kept", FateName::RetainedFresh), saved.clone()])).unwrap();
    let told = |filter: &Filter, ledger: &mut dyn Ledger| {
        let near = Filter { fates: Fates::NEAR_MISSES, ..filter.clone() };
        let misses = ledger.sightings(Place::Anywhere, &near).unwrap().into_iter();
        misses.map(|sighting| (sighting.head.id, sighting.directory.fate)).collect::<Vec<_>>()
    };
    use FateName::{RetainedChanged, RetainedResurrected};
    let newest = (id(3), RetainedResurrected);
    let older = [(id(2), RetainedResurrected), (id(2), RetainedChanged)];
    assert_eq!(told(&Filter::ALL, ledger), [&[newest.clone()][..], &older].concat());
    assert_eq!(told(&Filter { since: Some(began(3)), ..Filter::ALL }, ledger), [newest]);
    assert_eq!(directories(ledger, &id(3), Fates::NEAR_MISSES), [saved]);
}

fn what_is_old_is_forgotten_with_its_directories(ledger: &mut dyn Ledger) {
    assert_eq!(ledger.forget_before(began(2)).unwrap(), 2);
    assert_eq!(ledger.known().unwrap(), [id(2), id(3)].into());
    assert_eq!(directories(ledger, &id(0), Fates::Any), []);
    let [first, ..] = three();
    assert_eq!(ledger.sightings(Place::At(&[first.directories[0].path.clone()]), &Filter::ALL).unwrap(), []);
    ledger.record(&first).unwrap();
    assert_eq!(whole(ledger, &id(0)), Some(first), "what was forgotten can come back");
}

fn many_directories_are_kept_in_their_order(ledger: &mut dyn Ledger) {
    let sweep = many(9, 12_345);
    ledger.record(&sweep).unwrap();
    assert_eq!(whole(ledger, &id(9)), Some(sweep));
}
