// API keys: made with a secret that is shown once, rotated, revoked.
import { useState } from "preact/hooks";
import type { Api } from "../../api/client.ts";
import { createKey, listKeys, revokeKey, rotateKey } from "../../api/keys.ts";
import { useResource } from "../../api/resource.ts";
import { age, dateTime, until } from "../../model/time.ts";
import { isAdmin, me } from "../../session.ts";
import { t } from "../../text/en.ts";
import { manageText } from "../../text/manage.ts";
import { Badge, Button, copyText, Empty, Loaded, Time } from "../../ui/basics.tsx";
import { ask, Dialog, Menu } from "../../ui/dialog.tsx";
import { Select, TextField } from "../../ui/form.tsx";
import { Icon } from "../../ui/icon.tsx";
import { Bar } from "../frame.tsx";
import { attempt, FormDialog } from "./common.tsx";

const texts = manageText.keys;

/** The secret of a key. It is in no address, no storage and no message, and closes only on purpose. */
function Secret({ secret, onClose }: { secret: string; onClose: () => void }) {
  return (
    <Dialog title={texts.secretTitle} onClose={onClose} isModal>
      <div class="form">
        <p class="sub">{texts.secretExplain}</p>
        <pre class="code" tabIndex={0} aria-label={texts.secretTitle}>
          {secret}
        </pre>
        <footer>
          <Button icon="copy" onClick={() => void copyText(secret)}>
            {t.common.copy}
          </Button>
          <Button kind="primary" onClick={onClose}>
            {texts.secretSaved}
          </Button>
        </footer>
      </div>
    </Dialog>
  );
}

function NewKey({ onClose, onMade }: { onClose: () => void; onMade: (secret: string) => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<"member" | "admin">("member");
  const [expires, setExpires] = useState("");
  const submit = async () =>
    onMade(
      (
        await createKey({
          name,
          role,
          ...(expires && { expires_at: new Date(`${expires}T23:59:59`).toISOString() }),
        })
      ).key,
    );
  return (
    <FormDialog
      title={texts.new}
      submit={t.common.create}
      isReady={name.trim() !== ""}
      onClose={onClose}
      onSubmit={submit}
    >
      {(messages) => (
        <>
          <TextField label={texts.name} error={messages.get("name")} value={name} onText={setName} />
          <Select
            label={texts.role}
            value={role}
            options={Object.entries(texts.roles).map(([value, label]) => ({ value, label }))}
            onChoose={(value) => setRole(value as typeof role)}
          />
          <TextField
            label={
              <>
                {texts.expires}
                <span class="dim optional">{t.common.optional}</span>
              </>
            }
            type="date"
            error={messages.get("expires_at")}
            value={expires}
            onText={setExpires}
          />
        </>
      )}
    </FormDialog>
  );
}

function Rotate({
  rotated,
  onClose,
  onMade,
}: {
  rotated: Api.ApiKey;
  onClose: () => void;
  onMade: (secret: string) => void;
}) {
  const [grace, setGrace] = useState("86400");
  const submit = async () => onMade((await rotateKey(rotated.id, { grace_seconds: Number(grace) })).key);
  return (
    <FormDialog title={texts.rotateTitle(rotated.name)} submit={texts.rotate} onClose={onClose} onSubmit={submit}>
      {() => (
        <>
          <p class="sub">{texts.rotateExplain}</p>
          <Select
            label={texts.grace}
            value={grace}
            options={Object.entries(texts.graces).map(([value, label]) => ({ value, label }))}
            onChoose={setGrace}
          />
        </>
      )}
    </FormDialog>
  );
}

export function KeysPage() {
  const keys = useResource(`keys ${isAdmin()}`, async (signal) => (isAdmin() ? listKeys({ signal }) : []));
  const [isNew, setNew] = useState(false);
  const [rotated, setRotated] = useState<Api.ApiKey>();
  const [secret, setSecret] = useState<string>();
  const { columns } = texts;
  const made = (key: string) => {
    setSecret(key);
    keys.reload();
  };
  const revoke = ({ id, name }: Api.ApiKey) =>
    ask({
      title: texts.revokeTitle(name),
      explain: texts.revokeExplain,
      confirm: texts.revoke,
      typed: name,
      act: () => attempt(revokeKey(id), keys.reload),
    });
  return (
    <main class="main-inner">
      <Bar title={texts.title}>
        {isAdmin() && (
          <Button icon="plus" kind="primary" onClick={() => setNew(true)}>
            {texts.new}
          </Button>
        )}
      </Bar>
      <div class="page">
        <h1 class="vh">{texts.title}</h1>
        {me.value && !isAdmin() ? (
          <section class="card">
            <Empty icon="key" title={texts.adminOnly} />
          </section>
        ) : (
          <section class="card">
            <Loaded data={keys.data.value} error={keys.error.value} reload={keys.reload}>
              {(all) => (
                <table>
                  <thead>
                    <tr>
                      <th scope="col">{columns.name}</th>
                      <th scope="col">{columns.role}</th>
                      <th scope="col" class="opt">
                        {columns.created}
                      </th>
                      <th scope="col" class="opt">
                        {columns.used}
                      </th>
                      <th scope="col">{columns.expires}</th>
                      <th scope="col">
                        <span class="vh">{t.common.moreActions}</span>
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {all.map((key) => (
                      <tr key={key.id}>
                        <td>
                          <b>{key.name}</b> {key.id === me.value?.key_id && <span class="dim">· {texts.yours}</span>}
                        </td>
                        <td>
                          <Badge look={key.role === "member" ? "idle" : "warn"} icon="key">
                            {key.role}
                          </Badge>
                        </td>
                        <td class="opt dim">
                          <Time at={key.created_at}>{dateTime(key.created_at)}</Time>
                        </td>
                        <td class="opt">
                          {key.last_used_at ? (
                            <Time at={key.last_used_at}>
                              {t.common.ago(age(Date.now() - Date.parse(key.last_used_at)))}
                            </Time>
                          ) : (
                            <span class="dim">{texts.never}</span>
                          )}
                        </td>
                        <td>
                          {key.previous_until ? (
                            <span class="warn-text">{texts.graceUntil(until(key.previous_until, Date.now()))}</span>
                          ) : key.expires_at ? (
                            <Time at={key.expires_at}>{until(key.expires_at, Date.now())}</Time>
                          ) : (
                            <span class="dim">{texts.never}</span>
                          )}
                        </td>
                        <td class="r">
                          <Menu
                            label={`${t.common.moreActions}: ${key.name}`}
                            items={[
                              { label: texts.rotate, icon: "replay", act: () => setRotated(key) },
                              { label: texts.revoke, icon: "trash", isDangerous: true, act: () => revoke(key) },
                            ]}
                          >
                            <Icon name="more" />
                          </Menu>
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              )}
            </Loaded>
          </section>
        )}
      </div>
      {isNew && <NewKey onClose={() => setNew(false)} onMade={made} />}
      {rotated && <Rotate rotated={rotated} onClose={() => setRotated(undefined)} onMade={made} />}
      {secret && <Secret secret={secret} onClose={() => setSecret(undefined)} />}
    </main>
  );
}
