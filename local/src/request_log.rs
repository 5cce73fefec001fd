//! The lines that the functions would print on AWS, in files of the data folder.

use std::path::Path;
use std::sync::OnceLock;

use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::OptionalWriter;

/// The folder, in the data folder.
pub const FOLDER: &str = "log";
/// Files that are kept, one a day.
const FILES_MAX: usize = 7;

/// Unset until the data folder is ours: it may be another stack's.
static FILES: OnceLock<RollingFileAppender> = OnceLock::new();

/// Logs to standard error, by `default` or `RUST_LOG`, and to the files once there is a folder.
pub fn start(default: &str) {
    shared::logs::to_stderr_and(default, || {
        let files = FILES.get().map(MakeWriter::make_writer);
        files.map_or_else(OptionalWriter::none, OptionalWriter::some)
    });
}

/// Writes the files into this data folder from now on.
///
/// # Errors
/// If no folder or file can be made in it.
pub fn write_in(folder: &Path) -> std::io::Result<()> {
    let folder = folder.join(FOLDER);
    std::fs::create_dir_all(&folder)?;
    let files = RollingFileAppender::builder().rotation(Rotation::DAILY).filename_prefix("requests");
    let files = files.filename_suffix("jsonl").max_log_files(FILES_MAX).build(folder).map_err(std::io::Error::other)?;
    FILES.get_or_init(|| files);
    Ok(())
}
