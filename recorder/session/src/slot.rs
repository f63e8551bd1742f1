//! A value of one thread that outlives the destructors of the thread.
//!
//! Destructors of a thread's variables and of the program's statics may launch kernels. A thread-local variable with a
//! destructor may be gone by then, and an access to it panics. A slot has none: it is there as long as the thread.

use std::cell::Cell;
use std::mem::ManuallyDrop;

/// A value, or none. One that is left when the thread ends is never dropped.
pub struct ThreadSlot<T>(Cell<ManuallyDrop<Option<T>>>);

impl<T> ThreadSlot<T> {
    /// An empty slot.
    pub const fn empty() -> Self {
        Self(Cell::new(ManuallyDrop::new(None)))
    }

    /// Puts a value in, or none. Returns the one before.
    pub fn replace(&self, value: Option<T>) -> Option<T> {
        ManuallyDrop::into_inner(self.0.replace(ManuallyDrop::new(value)))
    }

    /// Puts a value in. The one before is dropped.
    pub fn put(&self, value: T) {
        drop(self.replace(Some(value)));
    }

    /// Takes the value out.
    pub fn take(&self) -> Option<T> {
        self.replace(None)
    }

    /// Changes the value. It is out of the slot meanwhile.
    pub fn change<R>(&self, change: impl FnOnce(&mut Option<T>) -> R) -> R {
        let mut value = self.take();
        let result = change(&mut value);
        drop(self.replace(value));
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// A variable of the program: its destructor runs work, as one does that launches a kernel.
    struct ProgramExit(Option<Sender<Option<u32>>>);

    impl Drop for ProgramExit {
        fn drop(&mut self) {
            let found = SLOT.try_with(|slot| {
                slot.put(2);
                slot.take()
            });
            if let Some(found) = found.ok().zip(self.0.take()) {
                found.1.send(found.0).unwrap_or_default();
            }
        }
    }

    thread_local! {
        static PROGRAM: std::cell::RefCell<ProgramExit> = const { std::cell::RefCell::new(ProgramExit(None)) };
        static SLOT: ThreadSlot<u32> = const { ThreadSlot::empty() };
    }

    #[test]
    fn a_slot_works_in_destructors_of_its_thread() {
        const { assert!(!std::mem::needs_drop::<ThreadSlot<String>>()) };
        let (sender, found) = channel();
        let body = move || {
            // The program's variable is older than the slot, so its destructor runs later.
            PROGRAM.with_borrow_mut(|program| program.0 = Some(sender));
            SLOT.with(|slot| slot.put(1));
        };
        std::thread::spawn(body).join().unwrap();
        assert_eq!(found.recv(), Ok(Some(2)));
    }

    #[test]
    fn a_change_sees_the_value_and_leaves_it() {
        let slot = ThreadSlot::empty();
        assert_eq!(slot.change(|value| value.replace(vec![1])), None);
        slot.change(|value| value.get_or_insert_default().push(2));
        assert_eq!(slot.take(), Some(vec![1, 2]));
        assert_eq!(slot.take(), None);
    }
}
