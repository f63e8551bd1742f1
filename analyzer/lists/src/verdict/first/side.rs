//! One of two runs that are compared launch by launch.

use std::collections::{BTreeMap, BTreeSet};

use stallmap::library::queries::CommandQuery;
use stallmap::library::queries::diff as queries;
use stallmap::session::Session;
use stallmap_console::answer::fresh_kept_rows;
use stallmap_console::exit::Outcome;
use stallmap_console::row::QueryRow;
use stallmap_schema::tables::replay::PAGE_BYTES;

use super::row::{
    ArgumentPointer, ElementText, HashedPage, InstructionAccess, OrderedLaunch, PageText, ReadWord,
    bytes_of_hex,
};

/// Bytes of a page.
pub(super) const PAGE: u64 = PAGE_BYTES as u64;

/// A run with what its capture holds of each launch.
pub(super) struct ComparedRun<'a> {
    session: &'a Session,
    pub(super) launches: Vec<OrderedLaunch>,
    pointers: BTreeMap<(u64, u64), ArgumentPointer>,
    accesses: BTreeMap<u64, Vec<InstructionAccess>>,
    /// Spaces of memory whose accesses were recorded.
    pub(super) spaces: BTreeSet<String>,
    /// Hashes of pages before and after launches.
    pages: BTreeMap<(u64, u64), (u64, Option<u64>)>,
}

async fn ask<T: QueryRow>(
    session: &Session,
    query: CommandQuery,
    parameters: &[(&str, u64)],
) -> Outcome<Vec<T>> {
    T::read(query.name, &fresh_kept_rows(session, &query.sql(parameters)).await?)
}

impl<'a> ComparedRun<'a> {
    /// Reads a capture.
    pub(super) async fn from_session(session: &'a Session) -> Outcome<Self> {
        let pointers: Vec<ArgumentPointer> = ask(session, queries::FIRST_POINTERS, &[]).await?;
        let pages: Vec<HashedPage> = ask(session, queries::FIRST_PAGES, &[]).await?;
        let mut accesses: BTreeMap<u64, Vec<InstructionAccess>> = BTreeMap::new();
        let mut spaces = BTreeSet::new();
        for access in ask::<InstructionAccess>(session, queries::FIRST_ACCESSES, &[]).await? {
            spaces.insert(access.space.clone());
            accesses.entry(access.kernel_id).or_default().push(access);
        }
        Ok(Self {
            session,
            launches: ask(session, queries::FIRST_LAUNCHES, &[]).await?,
            pointers: pointers.into_iter().map(|row| ((row.kernel_id, row.parameter_offset), row)).collect(),
            accesses,
            spaces,
            pages: pages
                .into_iter()
                .map(|row| ((row.kernel_id, row.address), (row.hash, row.hash_after)))
                .collect(),
        })
    }

    /// The pointer at an offset of a launch's arguments.
    pub(super) fn pointer(&self, kernel_id: u64, offset: u64) -> Option<&ArgumentPointer> {
        self.pointers.get(&(kernel_id, offset))
    }

    /// All pointers of a launch, by their offsets.
    pub(super) fn pointers(&self, kernel_id: u64) -> impl Iterator<Item = &ArgumentPointer> {
        self.pointers.range((kernel_id, 0)..=(kernel_id, u64::MAX)).map(|(_, pointer)| pointer)
    }

    /// Accesses of a launch. None if the capture does not have all of them.
    pub(super) fn accesses(&self, kernel_id: u64) -> Option<&[InstructionAccess]> {
        self.accesses.get(&kernel_id).map(Vec::as_slice)
    }

    /// True if a launch makes accesses of these kinds to the memory. None if the capture does not have all of its accesses.
    pub(super) fn is_accessed(
        &self,
        kernel_id: u64,
        pointer: &ArgumentPointer,
        kinds: &[&str],
    ) -> Option<bool> {
        let accesses = self.accesses(kernel_id)?;
        let is_whole = accesses.iter().all(|access| access.is_whole);
        let allocation = |access: &InstructionAccess| {
            if access.storage_id.is_none() { access.allocation_id } else { None }
        };
        is_whole.then(|| {
            accesses.iter().any(|access| {
                kinds.contains(&access.kind.as_str())
                    && (access.storage_id, allocation(access)) == pointer.object()
            })
        })
    }

    /// Hashes of a page before and after a launch.
    pub(super) fn page(&self, kernel_id: u64, address: u64) -> Option<(u64, Option<u64>)> {
        self.pages.get(&(kernel_id, address)).copied()
    }

    /// Pages of a launch between two addresses.
    pub(super) fn pages(&self, kernel_id: u64, from: u64, to: u64) -> Vec<u64> {
        let pages = self.pages.range((kernel_id, from / PAGE * PAGE)..(kernel_id, to));
        pages.map(|((_, address), _)| *address).collect()
    }

    /// Pages of a launch.
    pub(super) fn page_count(&self, kernel_id: u64) -> u64 {
        self.pages.range((kernel_id, 0)..=(kernel_id, u64::MAX)).count() as u64
    }

    /// Pages that a launch writes.
    pub(super) fn written_pages(&self, kernel_id: u64) -> u64 {
        let pages = self.pages.range((kernel_id, 0)..=(kernel_id, u64::MAX));
        pages.filter(|(_, (_, after))| after.is_some()).count() as u64
    }

    /// The bytes of all pages of a launch, before it.
    pub(super) async fn contents(&self, kernel_id: u64) -> Outcome<BTreeMap<u64, Vec<u8>>> {
        let rows: Vec<PageText> = ask(self.session, queries::FIRST_BYTES, &[("$kernel", kernel_id)]).await?;
        Ok(rows.into_iter().map(|row| (row.address, bytes_of_hex(&row.bytes))).collect())
    }

    /// The element of a tensor at an address, such as `[3, 7]`.
    pub(super) async fn element(&self, tensor_id: u64, address: u64) -> Outcome<Option<String>> {
        let parameters = [("$address", address), ("$tensor", tensor_id)];
        let rows: Vec<ElementText> = ask(self.session, queries::FIRST_ELEMENT, &parameters).await?;
        Ok(rows.into_iter().next().and_then(|row| row.element))
    }

    /// The argument words that the code of each kernel reads.
    pub(super) async fn read_words(&self) -> Outcome<BTreeMap<u64, Vec<ReadWord>>> {
        let mut read: BTreeMap<u64, Vec<ReadWord>> = BTreeMap::new();
        for word in ask::<ReadWord>(self.session, queries::FIRST_WORDS, &[]).await? {
            read.entry(word.kernel_function_id).or_default().push(word);
        }
        Ok(read)
    }
}
