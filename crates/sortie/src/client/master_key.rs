//! Master keys: pages through everything that is sealed, to count it or to seal it again.

use sortie_api::master_key::{MasterKeys, Reseal};

use super::{Client, InstallationApi, path_of};
use crate::failure::Result;

impl Client {
    /// Returns the keys and the number of values that each seals: all pages as one.
    pub(crate) async fn master_keys(&self, api: InstallationApi) -> Result<MasterKeys> {
        let path = api.path("master-key");
        let mut found: MasterKeys = self.get(&path).await?;
        while !found.next_cursor.is_empty() {
            let query = [("cursor", std::mem::take(&mut found.next_cursor))];
            let page: MasterKeys = self.get(&path_of(&path, &query)).await?;
            found.sealed.extend(page.sealed);
            found.next_cursor = page.next_cursor;
        }
        Ok(found)
    }

    /// Seals a page of values again.
    pub(crate) async fn reseal(&self, api: InstallationApi, cursor: &str) -> Result<Reseal> {
        let path = path_of(&api.path("master-key/reseal"), &[("cursor", cursor.to_owned())]);
        self.post(&path, None::<&()>).await
    }
}
