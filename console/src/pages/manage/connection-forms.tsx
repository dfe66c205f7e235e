// Forms of a connection: its definition, and its authorization in the browser.
import { useEffect, useState } from "preact/hooks";
import { call, type Api } from "../../api/client.ts";
import { until } from "../../model/time.ts";
import { t } from "../../text/en.ts";
import { manageText } from "../../text/manage.ts";
import { Segments, Select, TextField } from "../../ui/form.tsx";
import { Icon } from "../../ui/icon.tsx";
import { toast } from "../../ui/toast.tsx";
import { attempt, FormDialog, listOf } from "./common.tsx";

const texts = manageText.connections;

export type Start = Partial<Pick<Api.Connection, "name" | "type" | "url" | "description" | "allowed_methods" | "auth">>;

const SECRET_FIELDS: Record<Api.AuthType, [keyof Api.ConnectionAuth, string, boolean][]> = {
  none: [],
  bearer: [["token", texts.token, true]],
  basic: [
    ["username", texts.username, false],
    ["password", texts.password, true],
  ],
  header: [
    ["name", texts.header, false],
    ["value", texts.value, true],
  ],
  query: [
    ["name", texts.header, false],
    ["value", texts.value, true],
  ],
  oauth: [
    ["authorization_url", texts.authorizationUrl, false],
    ["token_url", texts.tokenUrl, false],
    ["client_id", texts.clientId, false],
    ["client_secret", texts.clientSecret, true],
  ],
};

export function Editor({
  start,
  isSaved,
  onClose,
  onSaved,
}: {
  start: Start;
  isSaved: boolean;
  onClose: () => void;
  onSaved: (connection: Api.Connection) => void;
}) {
  const [name, setName] = useState(start.name ?? "");
  const [type, setType] = useState<Api.ConnectionType>(start.type ?? "http");
  const [url, setUrl] = useState(start.url ?? "");
  const [description, setDescription] = useState(start.description ?? "");
  const [methods, setMethods] = useState((start.allowed_methods ?? []).join(", "));
  const [auth, setAuth] = useState<Api.ConnectionAuth>({ type: start.auth?.type ?? "none" });
  const submit = async () => {
    const allowed = listOf(methods);
    const body: Api.ConnectionDefinition = {
      type,
      url,
      auth,
      ...(description && { description }),
      ...(type === "http" && allowed.length && { allowed_methods: allowed }),
    };
    onSaved(await call("PUT /v1/connections/{name}", { path: { name }, body }));
  };
  return (
    <FormDialog
      title={isSaved ? name : texts.new}
      submit={t.common.save}
      isReady={Boolean(name && url)}
      onClose={onClose}
      onSubmit={submit}
      class="wide-form"
    >
      {(messages) => (
        <>
          {isSaved && start.auth && start.auth.type !== "none" && <p class="hint">{texts.secretKept}</p>}
          <div>
            <span class="lab">{texts.type}</span>
            <Segments
              label={texts.type}
              value={type}
              options={[
                ["http", "HTTP"],
                ["mcp", "MCP"],
              ]}
              onChoose={setType}
            />
          </div>
          <div class="two">
            {!isSaved && (
              <TextField
                label={texts.name}
                hint={manageText.workflows.nameHint}
                error={messages.get("name")}
                value={name}
                onText={setName}
              />
            )}
            <TextField
              label={texts.url}
              error={messages.get("url")}
              value={url}
              placeholder="https://"
              onText={setUrl}
            />
          </div>
          <Select
            label={texts.auth}
            error={messages.get("auth") ?? messages.get("auth.type")}
            value={auth.type}
            options={Object.entries(texts.auths).map(([value, label]) => ({ value, label }))}
            onChoose={(value) => setAuth({ type: value as Api.AuthType })}
          />
          <div class="two">
            {SECRET_FIELDS[auth.type].map(([field, label, isSecret]) => (
              <TextField
                key={field}
                label={label}
                error={messages.get(`auth.${field}`)}
                type={isSecret ? "password" : "text"}
                value={(auth[field] as string | undefined) ?? ""}
                onText={(text) => setAuth({ ...auth, [field]: text || undefined })}
              />
            ))}
          </div>
          {auth.type === "oauth" && type === "mcp" && <p class="hint">{texts.oauthOfMcp}</p>}
          {type === "http" && (
            <TextField
              label={texts.methods}
              hint={texts.methodsHint}
              error={messages.get("allowed_methods")}
              value={methods}
              placeholder="GET, POST"
              onText={setMethods}
            />
          )}
          <TextField
            label={texts.description}
            error={messages.get("description")}
            value={description}
            onText={setDescription}
          />
        </>
      )}
    </FormDialog>
  );
}

/** The provider opens in another tab. Its page shows a code, which a person brings back here. */
export function Authorize({ name, onClose, onDone }: { name: string; onClose: () => void; onDone: () => void }) {
  const [authorization, setAuthorization] = useState<Api.Authorization>();
  const [code, setCode] = useState("");
  useEffect(
    () => void attempt(call("POST /v1/connections/{name}/oauth", { path: { name } }), setAuthorization),
    [name],
  );
  const submit = async () => {
    const { account } = await call("POST /v1/connections/{name}/oauth/confirm", {
      path: { name },
      body: { code: code.trim() },
    });
    toast(account ? texts.confirmed(account) : texts.authorized);
    onDone();
  };
  return (
    <FormDialog
      title={texts.authorizeTitle(name)}
      submit={texts.confirm}
      isReady={code.trim() !== ""}
      onClose={onClose}
      onSubmit={submit}
    >
      {(messages) => (
        <>
          <p class="sub">{texts.authorizeExplain}</p>
          {authorization && (
            <a class="btn wide-button" href={authorization.authorization_url} target="_blank" rel="noopener noreferrer">
              <Icon name="link" />
              {texts.openProvider}
            </a>
          )}
          <TextField
            label={texts.code}
            hint={authorization && texts.waiting(until(authorization.expires_at, Date.now()))}
            error={messages.get("code")}
            value={code}
            placeholder="BCDF-GHJK"
            onText={setCode}
          />
        </>
      )}
    </FormDialog>
  );
}
