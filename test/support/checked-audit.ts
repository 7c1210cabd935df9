import { auditKinds, type Audit, type AuditSink } from '../../src/observability/audit.ts';

/** Throws for a line that its schema does not describe: a type does not refuse further fields. */
export const checkedAudit =
  (sink: AuditSink): Audit =>
  (kind, line) =>
    sink.info(kind, auditKinds[kind].schema.parse(line));
