//! Statements on a PostgreSQL server, each on a separate connection.

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio_postgres::NoTls;

/// The rows of a query, each as an object with its columns, over a separate connection.
pub(crate) async fn rows(server: &str, sql: &str) -> Result<Vec<Value>> {
    let (client, connection) = tokio_postgres::connect(server, NoTls)
        .await
        .context("cannot connect to the test server")?;
    let sql = format!("SELECT row_to_json(t)::text FROM ({sql}) t");
    let asking = async move { client.query(&sql, &[]).await };
    let (rows, closed) = tokio::join!(asking, connection);
    closed.context("the connection to the test server broke")?;
    rows?
        .iter()
        .map(|row| Ok(serde_json::from_str(row.try_get(0)?)?))
        .collect()
}

/// Runs one statement on the server, over a separate connection.
pub(crate) async fn execute(server: &str, sql: String) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(server, NoTls)
        .await
        .context("cannot connect to the test server")?;
    let statement = async move { client.batch_execute(&sql).await };
    let (done, closed) = tokio::join!(statement, connection);
    done.context("a statement failed on the test server")?;
    closed.context("the connection to the test server broke")
}
