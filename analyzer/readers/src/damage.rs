//! Damage of a JSON file as losses of its trace.

use crate::trace::model::TraceLosses;

/// Adds the damages of a file to losses.
pub(crate) fn add_damage(losses: &mut TraceLosses, damage: &crate::formats::json::JsonDamage) {
    for (reason, count, first) in damage.rows() {
        losses.add_many(stallmap_schema::word::LossKind::Source, reason, count, Some(first));
    }
}
