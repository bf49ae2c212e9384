//! Sharing of catalogs: sessions under the same conditions show the same one. Each has the texts and schemas of dozens of
//! tools.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{AgentMode, Catalog, Listing};
use crate::registry::Snapshot;

/// The catalogs that some session shows now.
#[derive(Default)]
pub(crate) struct SharedCatalogs(Mutex<Vec<Known>>);

struct Known {
    snapshot: Weak<Snapshot>,
    allowed: Option<Vec<String>>,
    own: Vec<String>,
    mode: AgentMode,
    listing: Arc<Listing>,
    catalog: Weak<Catalog>,
}

impl SharedCatalogs {
    /// Returns the catalog of these tools: see [`Catalog::of`].
    pub(crate) fn of(
        &self,
        snapshot: &Arc<Snapshot>,
        allowed: Option<&[String]>,
        own: &[String],
        mode: &AgentMode,
        listing: &Arc<Listing>,
    ) -> Arc<Catalog> {
        let is_same = |it: &Known| {
            it.snapshot.as_ptr() == Arc::as_ptr(snapshot)
                && it.allowed.as_deref() == allowed
                && it.own == own
                && it.mode == *mode
                && it.listing == *listing
        };
        // Sessions that are opened at the same time wait here, rather than compute the same one.
        let mut all = self.0.lock();
        if let Some(catalog) = all.iter().find(|it| is_same(it)).and_then(|it| it.catalog.upgrade()) {
            return catalog;
        }
        let catalog = Arc::new(Catalog::of(snapshot, allowed, own, mode, listing));
        all.retain(|it| it.catalog.strong_count() > 0);
        all.push(Known {
            snapshot: Arc::downgrade(snapshot),
            allowed: allowed.map(<[String]>::to_vec),
            own: own.to_vec(),
            mode: mode.clone(),
            listing: listing.clone(),
            catalog: Arc::downgrade(&catalog),
        });
        catalog
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    #[test]
    fn sessions_share_a_catalog_under_the_same_conditions_and_while_one_of_them_shows_it() {
        let (shared, mode, listing) = (SharedCatalogs::default(), AgentMode::default(), Arc::default());
        let snapshot = Registry::new(Vec::new()).snapshot();
        let first = shared.of(&snapshot, None, &[], &mode, &listing);
        let equal = Arc::new(Listing::clone(&listing));
        assert!(Arc::ptr_eq(&first, &shared.of(&snapshot, None, &[], &mode, &equal)));
        let plans = AgentMode { plans: true, ..mode.clone() };
        let short = Arc::new(Listing { bytes: Some(1), ..Listing::default() });
        let others = [
            shared.of(&snapshot, Some(&["read".to_owned()]), &[], &mode, &listing),
            shared.of(&snapshot, None, &["web_search".to_owned()], &mode, &listing),
            shared.of(&snapshot, None, &[], &plans, &listing),
            shared.of(&snapshot, None, &[], &mode, &short),
            shared.of(&Registry::new(Vec::new()).snapshot(), None, &[], &mode, &listing),
        ];
        assert!(others.iter().all(|other| !Arc::ptr_eq(&first, other)));
        assert_eq!(shared.0.lock().len(), 6);
        drop((first, others));
        let _again = shared.of(&snapshot, None, &[], &mode, &listing);
        assert_eq!(shared.0.lock().len(), 1);
    }
}
