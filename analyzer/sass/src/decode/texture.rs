//! Textures and surfaces.

use super::family::Family;

pub(super) const FAMILIES: &[Family] = &[];
