//! `sortie files`: the files that runs can be given.

use std::{
    fs::{File as Local, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use sortie_api::{File, file::RenameFile, plain};

use super::Context;
use crate::{
    args::{FileRef, FilesCommand},
    client::{Client, get, patch},
    failure::{Exit, Failure, Result},
    render::{Field, Record, Render, some, time},
    terminal,
};

impl Record for File {
    const COLUMNS: &'static [Field<Self>] = &[
        ("NAME", |file| some(&file.name)),
        ("SIZE", |file| some(file.size)),
        ("CREATED", |file| time(file.created_at)),
    ];
    const MORE: &'static [Field<Self>] = &[
        ("TYPE", |file| some(&file.content_type)),
        ("ID", |file| some(file.id)),
    ];
    const CUT: &'static [&'static str] = &["NAME", "TYPE"];
}

pub(super) async fn execute(context: &Context, command: FilesCommand) -> Result<Exit> {
    match command {
        FilesCommand::List { paging, render } => {
            context
                .pages::<File>(&render, "v1/files", &[], paging.most())
                .await
        }
        FilesCommand::Get { file, render } => {
            let found = context.call(&render, async |client| record(client, &file).await);
            render.one(&found.await?)
        }
        FilesCommand::Upload { path, name, render } => {
            let name = match name {
                Some(name) => name,
                None => own_name(&path)?,
            };
            let saved = context.call(&render, async |client| client.upload(&path, &name).await);
            render.one(&saved.await?)
        }
        FilesCommand::Download { file, output } => {
            let download = async |client: &Client| download(client, &file, output).await;
            context.call(&Render::default(), download).await
        }
        FilesCommand::Rename { file, name, render } => {
            let name = RenameFile { name };
            let rename = async |client: &Client| client.ask(patch(client.file(&file)?, &name)).await;
            let renamed: File = context.call(&render, rename).await?;
            render.one(&renamed)
        }
        FilesCommand::Delete { files } => {
            let delete = async |client: &Client| {
                for file in &files {
                    client.delete_file(file).await?;
                    terminal::note(&format!("{} is deleted", terminal::harmless(file.as_str())));
                }
                Ok(Exit::Success)
            };
            context.call(&Render::default(), delete).await
        }
    }
}

async fn record(client: &Client, file: &FileRef) -> Result<File> {
    client.ask(get(client.file(file)?)).await
}

fn own_name(path: &Path) -> Result<String> {
    path.file_name()
        .and_then(|name| name.to_str())
        .map(str::to_owned)
        .ok_or_else(|| Failure::usage(format!("{}: give it a name with --name", path.display())))
}

/// Target of downloaded bytes.
enum Target {
    Output,
    /// A file that gets its final name when it is complete.
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
        let name = PathBuf::from(record(client, file).await?.name);
        if name.exists() {
            return Err(Failure::usage(format!(
                "{} is there already; --output says where it may go",
                name.display()
            )));
        }
        name
    };
    let address = client.below("v1/files", [file.as_str(), "content"])?;
    let mut content = client.content(&address).await?;
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

    /// Renames the file to its final name, or removes it if it is incomplete.
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
