// Connections: cards with their state, known services, a form, and authorization in the browser.
import { useState } from "preact/hooks";
import { call, type Api } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { duration } from "../../model/time.ts";
import { isAdmin } from "../../session.ts";
import { t } from "../../text/en.ts";
import { manageText } from "../../text/manage.ts";
import { Badge, Button, Chip, Empty, Loaded } from "../../ui/basics.tsx";
import { ask, Menu } from "../../ui/dialog.tsx";
import { Icon } from "../../ui/icon.tsx";
import { Bar } from "../frame.tsx";
import { attempt } from "./common.tsx";
import { Authorize, Editor, type Start } from "./connection-forms.tsx";

const texts = manageText.connections;
const LOOKS = { ready: ["ok", "check"], needs_authorization: ["warn", "warning"], error: ["bad", "cross"] } as const;

function Card({
  connection,
  onEdit,
  onAuthorize,
  onChanged,
}: {
  connection: Api.Connection;
  onEdit: () => void;
  onAuthorize: () => void;
  onChanged: () => void;
}) {
  const { name, status, type, url, error, auth, allowed_methods: methods, description, used_by: users } = connection;
  const [result, setResult] = useState<string>();
  const [look, icon] = LOOKS[status];
  const test = () => {
    setResult(texts.testing);
    void attempt(call("POST /v1/connections/{name}/test", { path: { name } }), ({ detail, duration_ms, tools }) => {
      setResult(
        [texts.tested(detail, duration(duration_ms)), tools && texts.tools(tools.length)].filter(Boolean).join(" · "),
      );
      onChanged();
    });
  };
  const remove = () =>
    ask({
      title: texts.deleteTitle(name),
      explain: users.length ? texts.deleteUsed(users) : texts.deleteExplain,
      confirm: t.common.delete,
      act: () => attempt(call("DELETE /v1/connections/{name}", { path: { name } }), onChanged),
    });
  return (
    <section class="card connection" aria-label={name}>
      <header>
        <span class="glyph conn">
          <Icon name="plug" />
        </span>
        <h2>{name}</h2>
        <Badge look={look} icon={icon}>
          {texts.status[status]}
        </Badge>
        <span class="gap" />
        {isAdmin() && (
          <Menu
            label={`${t.common.moreActions}: ${name}`}
            items={[
              { label: t.common.edit, icon: "edit", act: onEdit },
              { label: t.common.delete, icon: "trash", isDangerous: true, act: remove },
            ]}
          >
            <Icon name="more" />
          </Menu>
        )}
      </header>
      <div class="form">
        <p class="mono sub t" title={url}>
          {url}
        </p>
        {description && <p class="sub">{description}</p>}
        {error && <p class="bad">{error}</p>}
        <p class="chips">
          <Chip>{type.toUpperCase()}</Chip>
          <Chip icon="key">{texts.auths[auth.type]}</Chip>
          {methods?.map((method) => (
            <Chip key={method}>{method}</Chip>
          ))}
        </p>
        <div class="row-of">
          <Button onClick={test}>{texts.test}</Button>
          {auth.type === "oauth" && isAdmin() && (
            <Button icon="link" kind={status === "ready" ? "ghost" : "primary"} onClick={onAuthorize}>
              {texts.authorize}
            </Button>
          )}
          <span class="dim t">{result ?? (users.length ? texts.usedBy(users) : "")}</span>
        </div>
      </div>
    </section>
  );
}

export function ConnectionsPage() {
  const connections = useResource("connections", (signal) => call("GET /v1/connections", { signal }));
  const catalogue = useResource("catalog", (signal) => call("GET /v1/connections/catalog", { signal }));
  const [edited, setEdited] = useState<{ start: Start; isSaved: boolean }>();
  const [authorized, setAuthorized] = useState<string>();
  const names = new Set(connections.data.value?.map(({ name }) => name));
  const services = catalogue.data.value?.filter(({ name }) => !names.has(name)) ?? [];
  return (
    <main class="main-inner">
      <Bar title={texts.title}>
        {isAdmin() && (
          <Button icon="plus" kind="primary" onClick={() => setEdited({ start: {}, isSaved: false })}>
            {texts.new}
          </Button>
        )}
      </Bar>
      <div class="page">
        <h1 class="vh">{texts.title}</h1>
        <Loaded data={connections.data.value} error={connections.error.value} reload={connections.reload}>
          {(all) =>
            all.length === 0 ? (
              <section class="card">
                <Empty icon="plug" title={texts.emptyTitle}>
                  <p class="sub">{texts.empty}</p>
                </Empty>
              </section>
            ) : (
              <div class="g3">
                {all.map((connection) => (
                  <Card
                    key={connection.name}
                    connection={connection}
                    onChanged={connections.reload}
                    onEdit={() => setEdited({ start: connection, isSaved: true })}
                    onAuthorize={() => setAuthorized(connection.name)}
                  />
                ))}
              </div>
            )
          }
        </Loaded>
        {isAdmin() && services.length > 0 && (
          <section class="card">
            <header>
              <h2>{texts.catalogue}</h2>
            </header>
            <ul class="services">
              {services.map((service) => (
                <li key={service.name}>
                  <button type="button" class="btn" onClick={() => setEdited({ start: service, isSaved: false })}>
                    <Icon name="plug" />
                    {service.name}
                    <span class="dim">
                      {service.type.toUpperCase()} · {texts.auths[service.auth.type]}
                    </span>
                  </button>
                </li>
              ))}
            </ul>
          </section>
        )}
      </div>
      {edited && (
        <Editor
          {...edited}
          onClose={() => setEdited(undefined)}
          onSaved={({ name, auth, status }) => {
            connections.reload();
            if (auth.type === "oauth" && status === "needs_authorization") setAuthorized(name);
          }}
        />
      )}
      {authorized && (
        <Authorize name={authorized} onClose={() => setAuthorized(undefined)} onDone={connections.reload} />
      )}
    </main>
  );
}
