//! `sortie files`: the files that runs can be given.

use std::{
    fs::{File as Local, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use sortie_api::{File, plain};

use super::{Context, print_json, table};
use crate::{
    args::{FileRef, FilesCommand, ListArgs},
    client::Client,
    failure::{Exit, Failure, Result},
    terminal,
};

pub(super) async fn execute(context: &Context, command: FilesCommand) -> Result<Exit> {
    match command {
        FilesCommand::List { limit, list } => {
            let connection = context.records(&list.engine).await?;
            let files = connection.client.list_files(limit).await;
            connection.close().await;
            show_all(&files?, &list)
        }
        FilesCommand::Get { file, list } => {
            let connection = context.records(&list.engine).await?;
            let found = connection.client.get_file(&file).await;
            connection.close().await;
            show(&found?, &list)
        }
        FilesCommand::Upload { path, name, list } => {
            let name = match name {
                Some(name) => name,
                None => own_name(&path)?,
            };
            let connection = context.records(&list.engine).await?;
            let saved = connection.client.upload(&path, &name).await;
            connection.close().await;
            show(&saved?, &list)
        }
        FilesCommand::Download { file, output, engine } => {
            let connection = context.records(&engine).await?;
            let done = download(&connection.client, &file, output).await;
            connection.close().await;
            done
        }
        FilesCommand::Rename { file, name, list } => {
            let connection = context.records(&list.engine).await?;
            let renamed = connection.client.rename_file(&file, name).await;
            connection.close().await;
            show(&renamed?, &list)
        }
        FilesCommand::Delete { file, engine } => {
            let connection = context.records(&engine).await?;
            let deleted = connection.client.delete_file(&file).await;
            connection.close().await;
            deleted?;
            terminal::note(&format!("{} is deleted", terminal::harmless(file.as_str())));
            Ok(Exit::Success)
        }
    }
}

fn own_name(path: &Path) -> Result<String> {
    path.file_name()
        .and_then(|name| name.to_str())
        .map(str::to_owned)
        .ok_or_else(|| Failure::usage(format!("{}: give it a name with --name", path.display())))
}

fn show(file: &File, list: &ListArgs) -> Result<Exit> {
    if list.json {
        return print_json(file);
    }
    show_all(std::slice::from_ref(file), list)
}

fn show_all(files: &[File], list: &ListArgs) -> Result<Exit> {
    if list.json {
        return print_json(&files);
    }
    let mut rows = table::new(["FILE", "SIZE", "TYPE", "CREATED", "NAME"]);
    for file in files {
        rows.add_row([
            file.id.to_string(),
            file.size.to_string(),
            terminal::harmless(&file.content_type).into_owned(),
            file.created_at.to_string(),
            terminal::harmless(&file.name).into_owned(),
        ]);
    }
    terminal::print(&table::text(&rows))?;
    Ok(Exit::Success)
}

/// Target of downloaded bytes.
enum Target {
    Output,
    /// A file that takes its place when it is complete.
    File {
        file: Local,
        passing: PathBuf,
        path: PathBuf,
    },
}

async fn download(client: &Client, file: &FileRef, output: Option<PathBuf>) -> Result<Exit> {
    let path = if let Some(path) = output {
        path
    } else {
        let name = PathBuf::from(client.get_file(file).await?.name);
        if name.exists() {
            return Err(Failure::usage(format!(
                "{} is there already; --output says where it may go",
                name.display()
            )));
        }
        name
    };
    let mut content = client.file_content(file).await?;
    let mut target = Target::open(&path)?;
    let written = async {
        while let Some(piece) = content.next().await? {
            target.write(&piece)?;
        }
        Ok(())
    };
    let written = written.await;
    target.close(written)?;
    Ok(Exit::Success)
}

impl Target {
    fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Output);
        }
        let mut passing = path.as_os_str().to_owned();
        passing.push(format!(".{}.part", std::process::id()));
        let passing = PathBuf::from(passing);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&passing)
            .map_err(|error| Failure::usage(format!("{}: {}", passing.display(), plain::io(&error))))?;
        Ok(Self::File {
            file,
            passing,
            path: path.to_owned(),
        })
    }

    fn write(&mut self, piece: &[u8]) -> Result<()> {
        match self {
            Self::Output => std::io::stdout().lock().write_all(piece)?,
            Self::File { file, passing, .. } => file.write_all(piece).map_err(|error| {
                Failure::unavailable(format!("{}: {}", passing.display(), plain::io(&error)))
            })?,
        }
        Ok(())
    }

    /// Puts the file in its place, or removes what there is of it.
    fn close(self, written: Result<()>) -> Result<()> {
        let Self::File { passing, path, .. } = self else {
            std::io::stdout().lock().flush()?;
            return written;
        };
        match written {
            Ok(()) => {
                std::fs::rename(&passing, &path).map_err(|error| {
                    Failure::unavailable(format!("{}: {}", path.display(), plain::io(&error)))
                })?;
                terminal::note(&format!("{} written", path.display()));
                Ok(())
            }
            Err(failure) => {
                if let Err(error) = std::fs::remove_file(&passing) {
                    terminal::note(&format!("{}: {}", passing.display(), plain::io(&error)));
                }
                Err(failure)
            }
        }
    }
}
