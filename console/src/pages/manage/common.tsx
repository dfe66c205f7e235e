// What the pages of this area share.
import { useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { ApiError } from "../../api/client.ts";
import { t } from "../../text/en.ts";
import { Button } from "../../ui/basics.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Refused, useMessages } from "../../ui/refused.tsx";
import { toast } from "../../ui/toast.tsx";

/** Waits for a request, and shows its failure. */
export const attempt = <Reply,>(request: Promise<Reply>, onDone: (reply: Reply) => void): Promise<void> =>
  request.then(onDone).catch((error: ApiError) => toast(error.message, "bad"));

interface FormDialogProps {
  title: string;
  submit: string;
  onClose: () => void;
  onSubmit: () => Promise<unknown>;
  isReady?: boolean;
  class?: string;
  /** Fields, with the engine's messages by field. */
  children: (messages: Map<string, string>) => ComponentChildren;
}

/** A dialog with a form. What the engine refuses is shown at its field. */
export function FormDialog({
  title,
  submit,
  onClose,
  onSubmit,
  isReady = true,
  class: className = "",
  children,
}: FormDialogProps) {
  const [error, setError] = useState<ApiError>();
  const [isBusy, setBusy] = useState(false);
  const messages = useMessages(error);
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await onSubmit();
      onClose();
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose} class={className}>
      <form class="form" onSubmit={(event) => void send(event)}>
        <Refused error={error} messages={messages} />
        {children(messages)}
        <footer>
          <Button onClick={onClose}>{t.common.cancel}</Button>
          <Button type="submit" kind="primary" disabled={isBusy || !isReady}>
            {submit}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Texts between commas. */
export const listOf = (text: string) =>
  text
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
