import { rareSeeds, type Mutant } from './mutant.ts';

const again = 'the number of resumes of a run is limited';
const delivered = 'a message is delivered in time';
const settles = 'everything settles';
const approved = 'a tool runs only when a person has approved its call';
const approvals = 'src/controllers/conversation/approvals';
const questions = 'src/agent/openhands-questions.ts';
const answers = { messages: true, focus: 'questions', seeds: rareSeeds } as const;

/** Mistakes in the resume of runs, the delivery of messages, and the polls of agents. */
export const conversationMutants = {
  'a lost container does not count against its run': {
    file: 'src/controllers/conversation/execution/run-resume.ts',
    from: 'reason === Interruption.loss ? losses + 1 : losses',
    to: 'losses',
    rule: again,
    focus: 'losses',
  },
  'a resumed run forgets its lost containers': {
    file: 'src/controllers/conversation/execution/run-resume.ts',
    from: '  time,\n  ...(containerLosses === undefined ? {} : { containerLosses }),',
    to: '  time,\n',
    rule: again,
    focus: 'losses',
  },
  'a new message is no reason to poll its agent': {
    file: 'src/controllers/conversation/polling/conversation-poller.ts',
    from: '[metadata.uid, metadata.generation, sandbox.metadata.uid',
    to: '[metadata.uid, sandbox.metadata.uid',
    rule: delivered,
    focus: 'use',
    faults: 'none',
    messages: true,
  },
  'an answer is for whatever the agent asks next': {
    file: `${approvals}/decide.ts`,
    from: 'known.agentEpoch !== asked.agentEpoch && known.callHash === asked.callHash',
    to: 'known !== asked',
    rule: approved,
    ...answers,
  },
  'a call is known by its beginning': {
    file: questions,
    from: 'JSON.stringify(call)',
    to: 'JSON.stringify(call).slice(0, 1_000)',
    rule: approved,
    ...answers,
  },
  'a call is known by its text with the mask of credentials': {
    file: questions,
    from: 'JSON.stringify(call)',
    to: "JSON.stringify(call).replaceAll(/\\/\\/[^@]*@/g, '//***@')",
    rule: approved,
    ...answers,
  },
  'a call is known by its command alone': {
    file: questions,
    from: '[tool ?? null, action ?? null]',
    to: '[tool ?? null, action.command]',
    rule: approved,
    ...answers,
  },
  'an answer that names no option approves': {
    file: 'src/resources/approval.ts',
    from: "if (found === undefined && decision !== 'reject') return undefined;\nconst accept = found?.kind.startsWith('allow') === true;",
    to: "const accept = found?.kind.startsWith('allow') !== false;",
    rule: approved,
    ...answers,
  },
  'a question without an answer is approved': {
    file: `${approvals}/approvals.ts`,
    from: 'scope.status = withRecordedAnswer(scope.status, spec);',
    to: "scope.status = withRecordedAnswer(scope.status, { approvals: [...(spec.approvals ?? []), { id: scope.status.approval?.id ?? '', decision: 'approve' }] });",
    rule: approved,
    ...answers,
  },
  'a question that waits for half an hour is approved': {
    file: `${approvals}/approvals.ts`,
    from: 'scope.status = withRecordedAnswer(scope.status, spec);',
    to: "const { id = '', requestedTime = '' } = scope.status.approval ?? {};\nconst isOld = this.#options.clock.now() - Date.parse(requestedTime) > 1_800_000;\nscope.status = withRecordedAnswer(scope.status, isOld ? { approvals: [{ id, decision: 'approve' }] } : spec);",
    rule: approved,
    messages: true,
    focus: 'late answers',
  },
  'a question ends with a pause': {
    file: 'src/controllers/conversation/follow.ts',
    from: "if (view.phase === 'MISSING')\nscope.status = withQuestionWithdrawn",
    to: 'scope.status = withQuestionWithdrawn',
    rule: 'a pause keeps the question',
    ...answers,
  },
  'an answer is given before it is stored': {
    file: `${approvals}/approvals.ts`,
    from: 'const marked = await save(withAnswer(status, sent));',
    to: 'const marked = status;',
    rule: 'an answer that the agent has is not reported as withdrawn',
    ...answers,
  },
  'an answer in doubt is given again at once': {
    file: `${approvals}/approvals.ts`,
    from: 'const settleMs = 20_000;',
    to: 'const settleMs = 0;',
    rule: approved,
    ...answers,
  },
  'an answer resumes no sandbox': {
    file: `${approvals}/approvals.ts`,
    from: 'scope.status = await resumeForAnswer(this.#options, scope);',
    to: 'void resumeForAnswer;',
    rule: 'an answer resumes its sandbox in time',
    ...answers,
  },
  'an answer is never given': {
    file: `${approvals}/approvals.ts`,
    from: 'if (questionId !== undefined && answer !== undefined)',
    to: 'if (questionId === undefined && answer !== undefined)',
    rule: 'an answer reaches its agent in time',
    ...answers,
  },
  'a question is not read': {
    file: `${approvals}/approvals.ts`,
    from: 'if (question === undefined) return undefined;',
    to: 'if (question !== undefined) return known;',
    rule: 'a question is shown in time',
    ...answers,
  },
  'a message in doubt waits for minutes': {
    file: 'src/controllers/conversation/messages/decide.ts',
    from: 'const settleMs = 20_000;',
    to: 'const settleMs = 200_000;',
    rule: delivered,
    focus: 'use',
    faults: 'none',
    messages: true,
    seeds: rareSeeds,
  },
  'a webhook brings no poll forward': {
    file: 'src/controllers/operator-wiring.ts',
    from: 'if (delayMs !== undefined) channels.notified.enqueue(request, delayMs);',
    to: 'void delayMs;',
    rule: 'a notification of an agent takes effect soon',
    messages: true,
    focus: 'webhooks',
    faults: 'none',
  },
  'a run is polled every two minutes': {
    file: 'src/controllers/conversation/polling/poll-schedule.ts',
    from: 'running: { minMs: 500, maxMs: 4_000 }',
    to: 'running: { minMs: 500, maxMs: 128_000 }',
    rule: 'no conversation is reported as running without a running agent',
    focus: 'use',
    faults: 'none',
    seeds: rareSeeds,
  },
  'an agent counts as unresponsive only after ten minutes': {
    file: 'src/controllers/agent-calls/unresponsive-agents.ts',
    from: 'boundMs = 60_000',
    to: 'boundMs = 600_000',
    rule: 'no unresponsive agent is reported as running',
    focus: 'silence',
  },
  'a conversation is ready whatever its sandbox does': {
    file: 'src/status/conversation-projection.ts',
    from: "return sandboxStatus === 'RUNNING'\n",
    to: 'return isStartOver(start)\n',
    rule: settles,
  },
  'a pause by its owner alone counts as a pause of the conversation': {
    file: 'src/resources/conditions.ts',
    from: 'isPaused\n? conditionUpdate(',
    to: "isPaused && reason === 'User' ? conditionUpdate(",
    rule: settles,
  },
  'a condition keeps the generation of its first write': {
    file: 'src/resources/conditions.ts',
    from: '{ ...update, observedGeneration, lastTransitionTime }',
    to: '{ ...update, observedGeneration: old?.observedGeneration ?? observedGeneration, lastTransitionTime }',
    rule: settles,
    messages: true,
  },
} as const satisfies Readonly<Record<string, Mutant>>;
