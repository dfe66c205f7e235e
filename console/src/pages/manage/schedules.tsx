// Schedules: a list with words, next and last occurrence, and a dialog for each.
import { useState } from "preact/hooks";
import { call, type Api } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { cronWords } from "../../model/cron.ts";
import { age, duration, until } from "../../model/time.ts";
import { href, navigate, query, setQuery } from "../../router.ts";
import { t } from "../../text/en.ts";
import { manageText } from "../../text/manage.ts";
import { Badge, Button, Empty, Loaded, Time } from "../../ui/basics.tsx";
import { ask, Menu, type MenuItem } from "../../ui/dialog.tsx";
import { Icon } from "../../ui/icon.tsx";
import { toast } from "../../ui/toast.tsx";
import { Bar } from "../frame.tsx";
import { attempt } from "./common.tsx";
import { Details, Editor, nameOf } from "./schedule-dialogs.tsx";

const texts = manageText.schedules;

function State({ schedule: { enabled, paused_until } }: { schedule: Api.Schedule }) {
  if (!enabled)
    return (
      <Badge look="idle" icon="stop">
        {texts.states.off}
      </Badge>
    );
  return paused_until && Date.parse(paused_until) > Date.now() ? (
    <Badge look="warn" icon="pause">
      {texts.states.paused}
    </Badge>
  ) : (
    <Badge look="ok">{texts.states.on}</Badge>
  );
}

const PAUSES: [string, number][] = [
  ["1 h", 36e5],
  ["1 d", 864e5],
  ["7 d", 7 * 864e5],
];

export function SchedulesPage() {
  const schedules = useResource(
    "schedules",
    (signal) => call("GET /v1/schedules", { query: { limit: 100 }, signal }),
    30_000,
  );
  const [edited, setEdited] = useState<Api.Schedule>();
  const [shown, setShown] = useState<Api.Schedule>();
  const fresh = query.value.get("new") ?? undefined;
  const { columns } = texts;
  const patch = (schedule: Api.Schedule, body: Api.UpdateSchedule) =>
    attempt(call("PATCH /v1/schedules/{id}", { path: { id: schedule.id }, body }), schedules.reload);
  const runNow = (schedule: Api.Schedule) =>
    attempt(call("POST /v1/schedules/{id}/trigger", { path: { id: schedule.id } }), (run) => {
      toast(texts.started(`…${run.id.slice(-8)}`));
      schedules.reload();
    });
  const remove = (schedule: Api.Schedule) =>
    ask({
      title: texts.deleteTitle(nameOf(schedule)),
      explain: texts.deleteExplain,
      confirm: t.common.delete,
      act: () => attempt(call("DELETE /v1/schedules/{id}", { path: { id: schedule.id } }), schedules.reload),
    });
  const actions = (schedule: Api.Schedule): MenuItem[] => [
    { label: texts.history, icon: "clock", act: () => setShown(schedule) },
    { label: t.common.edit, icon: "edit", act: () => setEdited(schedule) },
    ...(schedule.enabled && !(schedule.paused_until && Date.parse(schedule.paused_until) > Date.now())
      ? PAUSES.map(([name, ms]) => ({
          label: `${texts.pause}: ${name}`,
          icon: "pause" as const,
          act: () => void patch(schedule, { paused_until: new Date(Date.now() + ms).toISOString() }),
        }))
      : [
          {
            label: schedule.enabled ? texts.resume : texts.enable,
            icon: "play" as const,
            act: () => void patch(schedule, { enabled: true, paused_until: null }),
          },
        ]),
    { label: t.common.delete, icon: "trash", isDangerous: true, act: () => remove(schedule) },
  ];
  return (
    <main class="main-inner">
      <Bar title={texts.title}>
        <Button icon="plus" kind="primary" onClick={() => setQuery({ new: "" })}>
          {texts.new}
        </Button>
      </Bar>
      <div class="page">
        <h1 class="vh">{texts.title}</h1>
        <section class="card runs">
          <Loaded data={schedules.data.value} error={schedules.error.value} reload={schedules.reload}>
            {({ items }) =>
              items.length === 0 ? (
                <Empty icon="clock" title={texts.emptyTitle}>
                  <p class="sub">{texts.empty}</p>
                  <Button icon="plus" kind="primary" onClick={() => setQuery({ new: "" })}>
                    {texts.new}
                  </Button>
                </Empty>
              ) : (
                <table>
                  <thead>
                    <tr>
                      {[columns.state, columns.workflow].map((name) => (
                        <th key={name} scope="col">
                          {name}
                        </th>
                      ))}
                      {[columns.when, columns.overlap].map((name) => (
                        <th key={name} scope="col" class="opt">
                          {name}
                        </th>
                      ))}
                      <th scope="col">{columns.next}</th>
                      <th scope="col" class="opt">
                        {columns.last}
                      </th>
                      <th scope="col">
                        <span class="vh">{t.common.moreActions}</span>
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {items.map((schedule) => (
                      <tr
                        key={schedule.id}
                        onClick={(event) => (event.target as Element).closest("a, button, .menu") ?? setShown(schedule)}
                      >
                        <td>
                          <State schedule={schedule} />
                        </td>
                        <td>
                          <button type="button" class="name plain-button" onClick={() => setShown(schedule)}>
                            <b>{schedule.workflow}</b>
                            {schedule.name && <span>{schedule.name}</span>}
                          </button>
                        </td>
                        <td class="opt" title={schedule.cron}>
                          {cronWords(schedule.cron) ?? <span class="mono">{schedule.cron}</span>}
                          {schedule.jitter_seconds > 0 &&
                            `, ${texts.jitter(duration(schedule.jitter_seconds * 1000))}`}{" "}
                          <span class="dim">{schedule.timezone}</span>
                        </td>
                        <td class="opt sub">{texts.overlap[schedule.overlap]}</td>
                        <td>
                          {schedule.next_run_at ? (
                            <Time at={schedule.next_run_at}>{until(schedule.next_run_at, Date.now())}</Time>
                          ) : (
                            <span class="dim">{texts.never}</span>
                          )}
                        </td>
                        <td class="opt">
                          {schedule.last_run_id && schedule.last_run_at && (
                            <a href={href(`/runs/${schedule.last_run_id}`)}>
                              <Badge
                                look={schedule.last_error ? "bad" : "ok"}
                                icon={schedule.last_error ? "cross" : "check"}
                              >
                                {t.common.ago(age(Date.now() - Date.parse(schedule.last_run_at)))}
                              </Badge>
                            </a>
                          )}
                        </td>
                        <td class="r actions">
                          <Button icon="play" kind="ghost" class="wide" onClick={() => void runNow(schedule)}>
                            {texts.runNow}
                          </Button>
                          <Menu
                            label={t.common.moreActions}
                            items={[
                              { label: texts.runNow, icon: "play", act: () => void runNow(schedule) },
                              ...actions(schedule),
                            ]}
                          >
                            <Icon name="more" />
                          </Menu>
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              )
            }
          </Loaded>
        </section>
      </div>
      {fresh !== undefined && (
        <Editor workflow={fresh} onClose={() => navigate("/schedules", { replace: true })} onSaved={schedules.reload} />
      )}
      {edited && <Editor schedule={edited} onClose={() => setEdited(undefined)} onSaved={schedules.reload} />}
      {shown && <Details schedule={shown} onClose={() => setShown(undefined)} />}
    </main>
  );
}
