-- Which trace a run belongs to, as W3C Trace Context has it: for the worker, also after a takeover, and for the callback.
ALTER TABLE run ADD COLUMN traceparent {TEXT};
ALTER TABLE run ADD COLUMN tracestate {TEXT};
