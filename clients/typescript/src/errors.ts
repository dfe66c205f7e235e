// Errors of the client. Each `code` of the API has a class; docs/API.md has the table.
import type { ErrorCode, Run } from "./api.gen.ts";

/** Base of every error of this package. */
export class SortieError extends Error {
  override get name(): string {
    return this.constructor.name;
  }
}

/** The engine cannot be reached, or broke a connection off, also after retries. */
export class ConnectionError extends SortieError {}

/** The engine did not answer in time, or a run did not end in the time that the caller gave it. */
export class TimeoutError extends SortieError {}

/** A callback is not from the engine, or is older than five minutes. */
export class InvalidSignatureError extends SortieError {}

/** A run ended in another way than `succeeded`. `run` has its `status` and `error`. */
export class RunNotSucceededError extends SortieError {
  readonly run: Run;

  constructor(run: Run) {
    super(`run ${run.id} ${run.status}: ${run.error ?? "no reason was given"}`);
    this.run = run;
  }
}

/** The output of a run is not of the schema that was asked for. `run` has it in `output`. */
export class InvalidOutputError extends SortieError {
  readonly run: Run;

  constructor(run: Run, reason: string) {
    super(`the output of run ${run.id}: ${reason}`);
    this.run = run;
  }
}

/** What the engine says of a refusal. */
export interface Refusal {
  /** The engine's sentence. */
  message: string;
  code: ErrorCode;
  status: number;
  /** Finds the request in the engine's log. */
  requestId: string | undefined;
  /** Seconds. */
  retryAfter: number | undefined;
}

/** The engine refused a request. */
export class APIError extends SortieError {
  readonly code: ErrorCode;
  readonly status: number;
  readonly requestId: string | undefined;
  readonly retryAfter: number | undefined;

  constructor({ message, code, status, requestId, retryAfter }: Refusal) {
    super(message);
    this.code = code;
    this.status = status;
    this.requestId = requestId;
    this.retryAfter = retryAfter;
  }
}

/** 400: the request breaks a rule, which the message names. Nothing was changed. */
export class InvalidRequestError extends APIError {}
/** 401: the credential is missing, invalid, expired or revoked. */
export class UnauthorizedError extends APIError {}
/** 401: the person has to send a code of their second factor too. */
export class SecondFactorRequiredError extends APIError {}
/** 402: a budget, credits or the monthly allowance do not cover the run. */
export class PaymentRequiredError extends APIError {}
/** 403: the role of the credential is too small. */
export class ForbiddenError extends APIError {}
/** 404: this organization has no such resource. */
export class NotFoundError extends APIError {}
/** 405: the path has no such method. */
export class MethodNotAllowedError extends APIError {}
/** 409: the current state forbids it. */
export class ConflictError extends APIError {}
/** 410: the content was never kept. */
export class GoneError extends APIError {}
/** 412: the content has another entity tag than the request names. */
export class PreconditionFailedError extends APIError {}
/** 413: the body or the file is too large. */
export class PayloadTooLargeError extends APIError {}
/** 416: the requested bytes are beyond the end of the content. */
export class RangeNotSatisfiableError extends APIError {}
/** 429: too many requests in this minute. `retryAfter` says when the quota restarts. */
export class RateLimitedError extends APIError {}
/** 500: the engine's log has the cause under `requestId`. */
export class InternalError extends APIError {}
/** 503: a dependency of the engine is away, or the node is stopping. */
export class UnavailableError extends APIError {}

/** The class of each `code`. */
export const errorsByCode: Readonly<Record<string, typeof APIError>> = {
  invalid_request: InvalidRequestError,
  unauthorized: UnauthorizedError,
  second_factor_required: SecondFactorRequiredError,
  payment_required: PaymentRequiredError,
  forbidden: ForbiddenError,
  not_found: NotFoundError,
  method_not_allowed: MethodNotAllowedError,
  conflict: ConflictError,
  gone: GoneError,
  precondition_failed: PreconditionFailedError,
  payload_too_large: PayloadTooLargeError,
  range_not_satisfiable: RangeNotSatisfiableError,
  rate_limited: RateLimitedError,
  internal: InternalError,
  unavailable: UnavailableError,
};

/** The error of an answer. A proxy in between may answer without the engine's form. */
export async function errorOf(response: Response): Promise<APIError> {
  const body: unknown = await response.json().catch(() => undefined);
  const { error, code } = (typeof body === "object" && body ? body : {}) as { error?: unknown; code?: unknown };
  const known = typeof code === "string" ? code : response.status >= 500 ? "unavailable" : "unknown";
  return new (errorsByCode[known] ?? APIError)({
    message: typeof error === "string" ? error : `the engine answered ${response.status}`,
    code: known,
    status: response.status,
    requestId: response.headers.get("x-request-id") ?? undefined,
    retryAfter: secondsOf(response.headers.get("retry-after")),
  });
}

const secondsOf = (text: string | null) => (text && /^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined);
