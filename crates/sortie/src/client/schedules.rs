//! Schedules, what became of their instants, and which come next.

use reqwest::Method;
use sortie_api::{
    Fire, Run, Schedule, ScheduleId, limits,
    schedule::{CreateSchedule, FirePage, NextFire, SchedulePage, UpdateSchedule},
};

use super::Client;
use crate::failure::Result;

impl Client {
    /// Every schedule, page by page.
    pub(crate) async fn list_schedules(&self) -> Result<Vec<Schedule>> {
        let mut all = Vec::new();
        let mut path = "v1/schedules".to_owned();
        loop {
            let page: SchedulePage = self.get(&path).await?;
            all.extend(page.items);
            if page.next_cursor.is_empty() {
                return Ok(all);
            }
            path = format!("v1/schedules?cursor={}", page.next_cursor);
        }
    }

    pub(crate) async fn get_schedule(&self, id: ScheduleId) -> Result<Schedule> {
        self.get(&format!("v1/schedules/{id}")).await
    }

    pub(crate) async fn create_schedule(&self, schedule: &CreateSchedule) -> Result<Schedule> {
        self.post("v1/schedules", Some(schedule)).await
    }

    pub(crate) async fn update_schedule(&self, id: ScheduleId, patch: &UpdateSchedule) -> Result<Schedule> {
        let request = self.request(Method::PATCH, &format!("v1/schedules/{id}"))?;
        self.read(self.send(request.json(patch)).await?).await
    }

    pub(crate) async fn delete_schedule(&self, id: ScheduleId) -> Result<()> {
        let request = self.request(Method::DELETE, &format!("v1/schedules/{id}"))?;
        self.send(request).await.map(drop)
    }

    pub(crate) async fn trigger_schedule(&self, id: ScheduleId) -> Result<Run> {
        self.post(&format!("v1/schedules/{id}/trigger"), None::<&()>)
            .await
    }

    pub(crate) async fn next_fires(&self, id: ScheduleId, count: u32) -> Result<Vec<NextFire>> {
        self.get(&format!("v1/schedules/{id}/next?count={count}")).await
    }

    /// The latest rows of a schedule's history, page by page.
    pub(crate) async fn list_fires(&self, id: ScheduleId, limit: u32) -> Result<Vec<Fire>> {
        let mut fires: Vec<Fire> = Vec::new();
        let mut cursor = String::new();
        loop {
            let left = limit.saturating_sub(u32::try_from(fires.len()).unwrap_or(u32::MAX));
            if left == 0 {
                return Ok(fires);
            }
            let size = left.min(limits::PAGE);
            let page: FirePage = self
                .get(&format!("v1/schedules/{id}/fires?limit={size}{cursor}"))
                .await?;
            fires.extend(page.items);
            if page.next_cursor.is_empty() {
                return Ok(fires);
            }
            cursor = format!("&cursor={}", page.next_cursor);
        }
    }
}
