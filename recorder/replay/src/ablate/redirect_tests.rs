//! The granules and ranges of objects.

use super::*;

fn object(addresses: impl IntoIterator<Item = u64>) -> ReadObject {
    let page = |address| TouchedPage { address, bytes: 4096, is_written: false };
    ReadObject { pages: addresses.into_iter().map(page).collect(), ..ReadObject::default() }
}

const GRANULE: u64 = REDIRECT_GRANULE_BYTES;

#[test]
fn granules_at_the_borders_are_left_alone() {
    let block = (GRANULE / 2, 4 * GRANULE + 512);
    let pages = (0..4 * GRANULE + 4096).step_by(4096);
    assert_eq!(whole_granules(&object(pages), block), [GRANULE, 2 * GRANULE, 3 * GRANULE]);
    let inside_one = (GRANULE + 512, 2 * GRANULE - 512);
    assert!(whole_granules(&object([GRANULE]), inside_one).is_empty());
}

#[test]
fn an_object_is_led_to_a_quarter_of_its_granules_or_less() {
    for count in 0..40_u64 {
        let granules: Vec<u64> = (0..count).map(|granule| granule * GRANULE).collect();
        let led = led(&granules);
        let pool: BTreeSet<u64> = led.iter().map(|(_, source)| *source).collect();
        assert_eq!(led.is_empty(), count < 4, "{count}");
        assert!(
            pool.len() <= MAX_POOL_GRANULES && pool.len() * MIN_LED_GRANULES <= granules.len(),
            "{count}"
        );
        // The pool is memory of the object.
        assert!(pool.iter().all(|source| led.contains(&(*source, *source))), "{count}");
    }
}

#[test]
fn ranges_end_where_the_object_does() {
    let block = (512, 3 * 4096 - 512);
    assert_eq!(ranges(&object([0, 4096, 8192]), block), [(512, 3 * 4096 - 1024)]);
    assert_eq!(ranges(&object([0, 8192]), block), [(512, 4096 - 512), (8192, 4096 - 512)]);
}
