//! The items of the table itself.

use std::path::Path;

use ::audit::{Item, ReadError, Reader, Segment};
use futures::stream::{self, StreamExt, TryStreamExt};
use shared::ports::Key;

use super::fact::{ATTRIBUTES, Attributes};
use super::tally::Tally;
use crate::deployment::{Failed, in_file};

/// Reads all items of the table into a tally whose files are in `folder`, `segments` pages at once.
pub async fn read(reader: &Reader, segments: u32, tally: &mut Tally, folder: &Path) -> Result<(), Failed> {
    let of = i32::try_from(segments).unwrap_or(i32::MAX);
    let mut pages = stream::iter(0..of)
        .map(|index| Box::pin(pages(reader, Segment { index, of })))
        .flatten_unordered(segments as usize);
    while let Some(items) = pages.try_next().await.map_err(Failed::Journal)? {
        for item in &items {
            tally.enter(&Attributes::of(item)).map_err(in_file(folder))?;
        }
    }
    Ok(())
}

/// The pages of a segment.
fn pages(reader: &Reader, segment: Segment) -> impl futures::Stream<Item = Result<Vec<Item>, ReadError>> {
    enum Place {
        After(Option<Key>),
        End,
    }
    stream::try_unfold(Place::After(None), move |place| async move {
        let Place::After(last) = place else { return Ok(None) };
        let page = reader.scan_items(segment, &ATTRIBUTES, last.as_ref()).await?;
        let next = page.next.map_or(Place::End, |key| Place::After(Some(key)));
        Ok(Some((page.items, next)))
    })
}
