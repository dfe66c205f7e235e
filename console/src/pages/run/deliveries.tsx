// Attempts to deliver the callback of a run.
import { call, type ApiError } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { dateTime, duration } from "../../model/time.ts";
import { runText } from "../../text/run.ts";
import { Badge, Button, Loaded, Time } from "../../ui/basics.tsx";
import { toast } from "../../ui/toast.tsx";

const texts = runText.deliveries;

export function Deliveries({ id }: { id: string }) {
  const attempts = useResource(id, (signal) => call("GET /v1/runs/{id}/deliveries", { path: { id }, signal }));
  const again = () =>
    call("POST /v1/runs/{id}/deliveries", { path: { id } })
      .then(({ attempt }) => {
        toast(texts.queued(attempt));
        attempts.reload();
      })
      .catch((error: ApiError) => toast(error.message, "bad"));
  const { columns } = texts;
  return (
    <div class="page">
      <Loaded data={attempts.data.value} error={attempts.error.value} reload={attempts.reload}>
        {(all) =>
          all.length === 0 ? (
            <p class="none dim">{texts.none}</p>
          ) : (
            <section class="card scroll">
              <header>
                <h2>{runText.tabs.deliveries}</h2>
                <span class="gap" />
                <Button icon="send" onClick={() => void again()}>
                  {texts.again}
                </Button>
              </header>
              <table>
                <thead>
                  <tr>
                    {[columns.attempt, columns.at, columns.result, columns.duration, columns.next].map((name) => (
                      <th key={name} scope="col">
                        {name}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {all.map(({ attempt, at, status, error, duration_ms, next_at }) => {
                    const isOk = status !== undefined && status < 300;
                    return (
                      <tr key={attempt}>
                        <td>{attempt}</td>
                        <td>
                          <Time at={at}>{dateTime(at)}</Time>
                        </td>
                        <td>
                          <Badge look={isOk ? "ok" : "bad"} icon={isOk ? "check" : "cross"}>
                            {status ?? texts.noAnswer}
                          </Badge>{" "}
                          <span class="dim">{error}</span>
                        </td>
                        <td>{duration(duration_ms)}</td>
                        <td class="dim">{next_at && <Time at={next_at}>{dateTime(next_at)}</Time>}</td>
                      </tr>
                    );
                  })}
                </tbody>
              </table>
            </section>
          )
        }
      </Loaded>
    </div>
  );
}
