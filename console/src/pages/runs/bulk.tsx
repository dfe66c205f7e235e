// Actions on the selected runs, and on all runs that the filters match.
import { call, type Api, type ApiError } from "../../api/client.ts";
import { isFinal } from "../../model/events.ts";
import { toApi, type RunFilters } from "../../model/filters.ts";
import { navigate } from "../../router.ts";
import { t } from "../../text/en.ts";
import { Button } from "../../ui/basics.tsx";
import { ask, Menu } from "../../ui/dialog.tsx";
import { toast } from "../../ui/toast.tsx";

type Action = "cancel" | "replay";

const ASKED = { cancel: t.runs.confirmCancel, replay: t.runs.confirmReplay };

function report(done: number, failures: unknown[]) {
  toast(t.runs.done(done, failures.length), failures.length ? "bad" : "ok");
}

async function cancelRun(id: string) {
  await call("POST /v1/runs/{id}/cancel", { path: { id } });
}

/** Starts a run again as it was. One whose credentials are missing is refused by the engine. */
async function replayRun(id: string) {
  const { request } = await call("GET /v1/runs/{id}/definition", { path: { id } });
  await call("POST /v1/runs", { body: { ...request, replay_of: id } });
}

function askSelected(action: Action, ids: string[], onDone: () => void) {
  ask({
    title: action === "cancel" ? t.runs.cancelSelected : t.runs.replaySelected,
    explain: ASKED[action](ids.length),
    confirm: action === "cancel" ? t.runs.cancelSelected : t.runs.replaySelected,
    cancel: t.common.close,
    isDangerous: action === "cancel",
    act: async () => {
      const failures: unknown[] = [];
      for (const id of ids) await (action === "cancel" ? cancelRun(id) : replayRun(id)).catch((error: unknown) => failures.push(error));
      report(ids.length - failures.length, failures);
      onDone();
    },
  });
}

/** The body of a bulk request: the filters as the list's query has them. */
function bodyOf(filters: RunFilters): Record<string, string | string[]> {
  const query = toApi(filters, Date.now());
  return Object.fromEntries([...new Set(query.keys())].map((name) => [name, name === "status" ? query.getAll(name) : query.get(name)!]));
}

async function askMatching(action: Action, filters: RunFilters, onDone: () => void) {
  const body = bodyOf(filters);
  const send = (more: Record<string, string | boolean>) => call(`POST /v1/runs/${action}`, { body: { ...body, ...more } });
  const { matched } = await send({ dry_run: true });
  if (matched === 0) return toast(t.runs.nothingMatches);
  const label = action === "cancel" ? t.runs.cancelMatching : t.runs.replayMatching;
  ask({
    title: label,
    explain: ASKED[action](matched),
    confirm: label,
    cancel: t.common.close,
    isDangerous: action === "cancel",
    act: async () => {
      const sums = { done: 0, failed: 0 };
      let cursor = "";
      do {
        const result = await send(cursor ? { cursor } : {});
        sums.done += result.done;
        sums.failed += result.failed;
        cursor = result.next_cursor;
      } while (cursor);
      toast(t.runs.done(sums.done, sums.failed), sums.failed ? "bad" : "ok");
      onDone();
    },
  });
}

export function MatchingMenu({ filters, onDone }: { filters: RunFilters; onDone: () => void }) {
  const start = (action: Action) => void askMatching(action, filters, onDone).catch((error: ApiError) => toast(error.message, "bad"));
  return (
    <Menu
      label={t.runs.allMatching}
      class="btn ghost"
      items={[
        { label: t.runs.cancelMatching, icon: "stop", isDangerous: true, act: () => start("cancel") },
        { label: t.runs.replayMatching, icon: "replay", act: () => start("replay") },
      ]}
    >
      {t.runs.allMatching}
    </Menu>
  );
}

export function SelectionBar({ runs, onClear }: { runs: Api.Run[]; onClear: () => void }) {
  const ids = runs.map(({ id }) => id);
  const working = runs.filter(({ status }) => !isFinal(status)).map(({ id }) => id);
  return (
    <div class="selection" role="toolbar" aria-label={t.runs.selected(runs.length)}>
      <b>{t.runs.selected(runs.length)}</b>
      <span class="gap" />
      {runs.length === 2 && <Button icon="compare" onClick={() => navigate(`/runs/compare?a=${ids[1]}&b=${ids[0]}`)}>{t.runs.compare}</Button>}
      <Button icon="replay" onClick={() => askSelected("replay", ids, onClear)}>{t.runs.replaySelected}</Button>
      {working.length > 0 && <Button icon="stop" kind="danger" onClick={() => askSelected("cancel", working, onClear)}>{t.runs.cancelSelected}</Button>}
      <Button kind="ghost" icon="cross" onClick={onClear}>{t.common.clear}</Button>
    </div>
  );
}
