import type { Mutant } from './mutant.ts';

const used = 'no object in use is deleted';
const early = 'no object is deleted before its time';
const announced = 'deletions are announced';
const inTime = 'an expired object is deleted in time';

/** Mistakes in the deletion of objects that have been unused for long. */
export const retentionMutants = {
  'a resume does not restart the countdown of its conversation': {
    file: 'src/controllers/retention/countdown.ts',
    from: 'latest(overMs, transitionMs(sandbox, SandboxCondition.admitted), pausedMs, requestedMs(sandbox, nowMs));',
    to: 'overMs;',
    rule: early,
    faults: 'none',
    retention: true,
    focus: 'use',
  },
  'the age of a conversation counts from its creation': {
    file: 'src/controllers/retention/countdown.ts',
    from: '    transitionMs(conversation, ConversationCondition.finished),\n',
    to: '    Date.parse(conversation.metadata.creationTimestamp),\n',
    rule: early,
    retention: true,
  },
  'the age of a sandbox counts from its creation': {
    file: 'src/controllers/retention/countdown.ts',
    from: "latest(Date.parse(sandbox.status?.pauseTime ?? ''), requested",
    to: 'latest(Date.parse(sandbox.metadata.creationTimestamp), requested',
    rule: early,
    retention: true,
  },
  'no Event announces a deletion': {
    file: 'src/controllers/retention/reconcile.ts',
    from: "this.#options.events.record(about, { type: 'Normal', ...announcement, reason: 'Expiring', essential: true });",
    to: 'void about;',
    rule: announced,
    retention: true,
  },
  'a deletion is announced at the time of its deletion': {
    file: 'src/controllers/retention/decide.ts',
    from: 'Math.max(dueMs, announcedMs + lead);',
    to: 'dueMs;',
    rule: announced,
    faults: 'none',
    retention: true,
  },
  'a deletion comes before the time that was announced': {
    file: 'src/controllers/retention/decide.ts',
    from: 'return nowMs < atMs ?',
    to: 'return nowMs < announcedMs ?',
    rule: announced,
    retention: true,
  },
  'a sandbox is deleted while a message waits in it': {
    file: 'src/controllers/retention/countdown.ts',
    from: ' || conversations.some(isUnderWay)) return undefined;',
    to: ') return undefined;',
    rule: used,
    messages: true,
    retention: true,
  },
  'a sandbox is deleted that a quota has paused during a run': {
    file: 'src/controllers/retention/countdown.ts',
    from: 'if (reason === SandboxReason.quota && (interrupted || unfinished)) return undefined;',
    to: '',
    rule: used,
    retention: true,
  },
  'an object without a setting is deleted': {
    file: 'src/controllers/retention/countdown.ts',
    from: 'const kept = template?.spec.retention?.[rule];',
    to: "const kept = template?.spec.retention?.[rule] ?? '0s';",
    retention: true,
    rule: /no object is deleted where retention is off|an outdated announcement is withdrawn|no object in use is deleted/,
  },
  'the setting of a conversation is ignored': {
    file: 'src/controllers/retention/countdown.ts',
    from: 'seconds === undefined\n',
    to: 'seconds !== 0\n',
    faults: 'none',
    retention: true,
    rule: /a deletion is announced in time|everything settles|no object is deleted before its time/,
  },
  'an expired object is never deleted': {
    file: 'src/controllers/retention/reconcile.ts',
    from: 'if (step.atMs === dueAtMs) await',
    to: 'if (step.atMs !== dueAtMs) await',
    rule: 'everything settles',
    retention: true,
  },
  'an expired object is deleted without a second check': {
    file: 'src/controllers/retention/due-watch.ts',
    from: '    return confirmMs;',
    to: '    return 0;',
    rule: announced,
    faults: 'none',
    retention: true,
  },
  'an expired object is deleted minutes later': {
    file: 'src/controllers/retention/reconcile.ts',
    from: 'times?.confirmMs ?? 120_000',
    to: '120_000',
    rule: inTime,
    faults: 'none',
    retention: true,
  },
  'the record of a conversation without a sandbox is never deleted': {
    file: 'src/controllers/retention/countdown.ts',
    from: "isGone ? byTemplate(template, 'conversation', 'records', overMs) : undefined",
    to: 'void isGone',
    retention: true,
    rule: /a deletion is announced in time|everything settles/,
  },
  'an outdated announcement stays': {
    file: 'src/controllers/retention/reconcile.ts',
    from: 'await this.#store(stored.object, undefined, signal);',
    to: 'void 0;',
    retention: true,
    focus: 'use',
    messages: true,
    faults: 'none',
    rule: /an outdated announcement is withdrawn|everything settles/,
  },
  'a change of a template is ignored': {
    file: 'src/controllers/retention-controller.ts',
    from: 'updated: (template, old) => reconciler.observeTemplate(template, old),',
    to: '',
    faults: 'none',
    retention: true,
    rule: /a deletion is announced in time|everything settles|no object is deleted before its time/,
  },
} as const satisfies Readonly<Record<string, Mutant>>;
