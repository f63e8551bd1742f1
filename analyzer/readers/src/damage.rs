//! Damage of a JSON file as losses of its trace.

use stallmap_trace::model::Losses;

/// Adds the damages of a file to losses.
pub(crate) fn add_damage(losses: &mut Losses, damage: &stallmap_formats::json::Damage) {
    for (reason, count, first) in damage.rows() {
        losses.add_many(stallmap_schema::word::LossKind::Source, reason, count, Some(first));
    }
}
