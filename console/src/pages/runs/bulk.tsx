// Actions on the selected runs, and on all runs that the filters match.
import { call, type Api, type ApiError } from "../../api/client.ts";
import { isFinal } from "../../model/events.ts";
import { toApi, VIEWS, type RunFilters } from "../../model/filters.ts";
import { navigate } from "../../router.ts";
import { t } from "../../text/en.ts";
import { Button } from "../../ui/basics.tsx";
import { ask, Menu } from "../../ui/dialog.tsx";
import { toast } from "../../ui/toast.tsx";

type Action = "cancel" | "replay";

const MOST_REPLAYS = 200;

const ASKED = { cancel: t.runs.confirmCancel, replay: t.runs.confirmReplay };

function report(done: number, failures: unknown[]) {
  toast(t.runs.done(done, failures.length), failures.length ? "bad" : "ok");
}

async function cancelRun(id: string) {
  await call("POST /v1/runs/{id}/cancel", { path: { id } });
}

/** Starts a run again as it was. The engine refuses it if credentials are missing. */
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
      for (const id of ids)
        await (action === "cancel" ? cancelRun(id) : replayRun(id)).catch((error: unknown) => failures.push(error));
      report(ids.length - failures.length, failures);
      onDone();
    },
  });
}

/** Filters with which something is cancelled: open runs, if there are no others. */
function openRuns(filters: RunFilters): URLSearchParams {
  const query = toApi(filters, Date.now());
  if (query.size === 0) query.set("status", VIEWS.flight.status!.join(","));
  return query;
}

/** Cancels all runs that match, or counts them. One request looks at a bounded number of runs. */
async function cancelMatching(
  query: URLSearchParams,
  isDryRun: boolean,
): Promise<{ matched: number; cancelled: number }> {
  const sums = { matched: 0, cancelled: 0 };
  let cursor = "";
  do {
    const more = { limit: "1000", ...(isDryRun && { dry_run: "true" }), ...(cursor && { cursor }) };
    const { matched, cancelled, next_cursor } = await call("POST /v1/runs/cancel", {
      query: new URLSearchParams([...query, ...Object.entries(more)]),
    });
    sums.matched += matched;
    sums.cancelled += cancelled;
    cursor = next_cursor;
  } while (cursor);
  return sums;
}

async function askCancelMatching(filters: RunFilters, onDone: () => void) {
  const query = openRuns(filters);
  const { matched } = await cancelMatching(query, true);
  if (matched === 0) return toast(t.runs.nothingMatches);
  ask({
    title: t.runs.cancelMatching,
    explain: ASKED.cancel(matched),
    confirm: t.runs.cancelMatching,
    cancel: t.common.close,
    act: async () => {
      const { cancelled } = await cancelMatching(query, false);
      report(cancelled, []);
      onDone();
    },
  });
}

/** IDs of the runs that match, one more than may be replayed at most. */
async function matchingIds(query: URLSearchParams): Promise<string[]> {
  const ids: string[] = [];
  let cursor = "";
  do {
    const page = await call("GET /v1/runs", {
      query: new URLSearchParams([
        ...query,
        ["limit", "100"],
        ...(cursor ? [["cursor", cursor] as [string, string]] : []),
      ]),
    });
    ids.push(...page.items.map(({ id }) => id));
    cursor = page.next_cursor;
  } while (cursor && ids.length <= MOST_REPLAYS);
  return ids;
}

async function askReplayMatching(filters: RunFilters, onDone: () => void) {
  const ids = await matchingIds(toApi(filters, Date.now()));
  if (ids.length === 0) toast(t.runs.nothingMatches);
  else if (ids.length > MOST_REPLAYS) toast(t.runs.tooManyReplays(MOST_REPLAYS), "bad");
  else askSelected("replay", ids, onDone);
}

export function MatchingMenu({ filters, onDone }: { filters: RunFilters; onDone: () => void }) {
  const start = (act: typeof askCancelMatching) => () =>
    void act(filters, onDone).catch((error: ApiError) => toast(error.message, "bad"));
  return (
    <Menu
      label={t.runs.allMatching}
      class="btn ghost"
      items={[
        { label: t.runs.cancelMatching, icon: "stop", isDangerous: true, act: start(askCancelMatching) },
        { label: t.runs.replayMatching, icon: "replay", act: start(askReplayMatching) },
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
      {runs.length === 2 && (
        <Button icon="compare" onClick={() => navigate(`/runs/compare?a=${ids[1]}&b=${ids[0]}`)}>
          {t.runs.compare}
        </Button>
      )}
      <Button icon="replay" onClick={() => askSelected("replay", ids, onClear)}>
        {t.runs.replaySelected}
      </Button>
      {working.length > 0 && (
        <Button icon="stop" kind="danger" onClick={() => askSelected("cancel", working, onClear)}>
          {t.runs.cancelSelected}
        </Button>
      )}
      <Button kind="ghost" icon="cross" onClick={onClear}>
        {t.common.clear}
      </Button>
    </div>
  );
}
