//! Sorts more records than memory holds: sorted runs in files, which are merged at the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The most runs that are merged at once. Each has an open file and a buffer.
const RUNS_MAX: usize = 64;
const RUN_BUFFER_BYTES: usize = 128 * 1024;
/// The shortest record for which the memory is planned. Shorter ones fill a run earlier.
const RECORD_BYTES_LEAST: usize = 32;

/// Takes records in any order, and gives them back in the order of their bytes.
pub struct Sorter {
    folder: PathBuf,
    /// The most bytes of records in memory. With their places it is a quarter more.
    memory: usize,
    records: Vec<u8>,
    /// Where each record begins and ends.
    places: Vec<(u32, u32)>,
    runs: Vec<File>,
}

impl Sorter {
    /// A sorter that keeps up to `memory` bytes of records in memory, and the others in nameless files in `folder`.
    pub fn new(folder: &Path, memory: usize) -> Self {
        Self { folder: folder.to_owned(), memory, records: Vec::new(), places: Vec::new(), runs: Vec::new() }
    }

    /// Takes a record of at most 65,535 bytes.
    pub fn push(&mut self, record: &[u8]) -> io::Result<()> {
        let is_full = self.records.len() + record.len() > self.memory;
        if is_full || self.places.len() >= self.memory / RECORD_BYTES_LEAST {
            self.spill()?;
        }
        if self.records.capacity() == 0 {
            // A vector that grows would need up to three times as much for a moment.
            self.records.reserve_exact(self.memory.max(record.len()));
            self.places.reserve_exact(self.memory / RECORD_BYTES_LEAST);
        }
        let start = self.records.len();
        self.records.extend_from_slice(record);
        let place = |at: usize| u32::try_from(at).map_err(|_| io::Error::from(ErrorKind::OutOfMemory));
        self.places.push((place(start)?, place(self.records.len())?));
        Ok(())
    }

    /// Takes all records of another sorter.
    pub fn append(&mut self, mut other: Self) -> io::Result<()> {
        other.spill()?;
        for run in other.runs {
            self.add_run(run)?;
        }
        Ok(())
    }

    /// All records in order.
    pub fn finish(mut self) -> io::Result<Sorted> {
        self.spill()?;
        Sorted::new(self.runs)
    }

    /// Moves the records in memory to a run.
    fn spill(&mut self) -> io::Result<()> {
        if self.places.is_empty() {
            return Ok(());
        }
        let record = |&(start, end): &(u32, u32)| &self.records[start as usize..end as usize];
        self.places.sort_unstable_by(|one, other| record(one).cmp(record(other)));
        let run =
            write_run(&self.folder, |file| self.places.iter().try_for_each(|place| write_record(file, record(place))))?;
        self.records.clear();
        self.places.clear();
        self.add_run(run)
    }

    fn add_run(&mut self, run: File) -> io::Result<()> {
        self.runs.push(run);
        if self.runs.len() < RUNS_MAX {
            return Ok(());
        }
        let mut sorted = Sorted::new(std::mem::take(&mut self.runs))?;
        let merged = write_run(&self.folder, |file| {
            while let Some(record) = sorted.advance()? {
                write_record(file, record)?;
            }
            Ok(())
        })?;
        self.runs.push(merged);
        Ok(())
    }
}

/// A new file with what `write` writes, to be read from its start.
fn write_run(folder: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<File> {
    let mut file = BufWriter::with_capacity(RUN_BUFFER_BYTES, tempfile::tempfile_in(folder)?);
    write(&mut file)?;
    let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    Ok(file)
}

fn write_record(file: &mut impl Write, record: &[u8]) -> io::Result<()> {
    let length = u16::try_from(record.len()).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
    file.write_all(&length.to_le_bytes())?;
    file.write_all(record)
}

/// Records in order.
pub struct Sorted {
    /// The first record of each run that has one.
    heads: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    runs: Vec<BufReader<File>>,
    current: Vec<u8>,
}

impl Sorted {
    fn new(runs: Vec<File>) -> io::Result<Self> {
        let mut runs: Vec<_> = runs.into_iter().map(|run| BufReader::with_capacity(RUN_BUFFER_BYTES, run)).collect();
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (number, run) in runs.iter_mut().enumerate() {
            let mut record = Vec::new();
            if read_record(run, &mut record)? {
                heads.push(Reverse((record, number)));
            }
        }
        Ok(Self { heads, runs, current: Vec::new() })
    }

    /// The next record; `None` at the end.
    pub fn advance(&mut self) -> io::Result<Option<&[u8]>> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        let Reverse((record, run)) = &mut *head;
        std::mem::swap(&mut self.current, record);
        if !read_record(&mut self.runs[*run], record)? {
            PeekMut::pop(head);
        }
        Ok(Some(&self.current))
    }
}

/// Reads the next record of a run. Returns whether there is one.
fn read_record(run: &mut impl Read, record: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 2];
    match run.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
        Err(error) => return Err(error),
    }
    record.resize(u16::from_le_bytes(length).into(), 0);
    run.read_exact(record)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(records: &[Vec<u8>], sorters: usize, memory: usize) -> Vec<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let mut all: Vec<Sorter> = (0..sorters).map(|_| Sorter::new(folder.path(), memory)).collect();
        for (n, record) in records.iter().enumerate() {
            all[n % sorters].push(record).unwrap();
        }
        let mut first = all.remove(0);
        for other in all {
            first.append(other).unwrap();
        }
        let (mut sorted, mut found) = (first.finish().unwrap(), Vec::new());
        while let Some(record) = sorted.advance().unwrap() {
            found.push(record.to_vec());
        }
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_records_come_back_in_order(
            mut records in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..400),
            sorters in 1_usize..4,
            memory in 64_usize..4_096,
        ) {
            let found = sorted(&records, sorters, memory);
            records.sort();
            prop_assert_eq!(found, records);
        }
    }

    #[test]
    fn runs_are_merged_before_they_are_too_many() {
        let records: Vec<Vec<u8>> = (0..10_000_u32).rev().map(|n| n.to_be_bytes().to_vec()).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::new(folder.path(), 400);
        for record in &records {
            sorter.push(record).unwrap();
            assert!(sorter.runs.len() < RUNS_MAX && sorter.records.capacity() <= 400);
        }
        drop(sorter);
        assert_eq!(sorted(&records, 2, 400), records.into_iter().rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_record_may_be_longer_than_the_memory_but_not_than_a_run_takes() {
        assert_eq!(sorted(&[vec![1; 100], vec![0; 200]], 1, 10), [vec![0; 200], vec![1; 100]]);
        let folder = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::new(folder.path(), 10);
        sorter.push(&vec![0; 70_000]).unwrap();
        assert_eq!(sorter.finish().err().unwrap().kind(), ErrorKind::InvalidInput);
    }
}
