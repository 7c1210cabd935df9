import { rareSeeds, type Mutant } from './mutant.ts';

const settles = 'everything settles';
const deliveredOnce = 'each message is delivered once and in order';
const noSecret = 'no secret is stored';
const delivery = 'src/controllers/conversation/messages/delivery.ts';
const execution = 'src/controllers/conversation/execution';
/** Agents of one owner, which is where most of these mistakes show soonest. */
const world = 'single-owner';

/**
 * Mistakes in what the operator writes to the API server and asks of agents, and in what it takes
 * their answers for.
 */
export const operatorMutants = {
  'a status is written regardless of its version': {
    file: 'packages/kube/src/http-client.ts',
    from: 'body: statusPatch(resourceVersion, statusOf(object), options.from),',
    to: 'body: statusPatch((await this.get(resource, namespace, name)).metadata.resourceVersion, statusOf(object), options.from),',
    rule: /transitions of a start are only appended|no start goes backwards|READY and ERROR are final|the master key of a sandbox does not change/,
    focus: 'lag',
  },
  'a delayed requeue is lost': {
    file: 'packages/kube/src/controller.ts',
    from: 'this.#queue.addAfter(key, result.requeueAfterMs);',
    to: '',
    rule: settles,
    world,
  },
  'a sandbox is created a minute after the check of its conversation': {
    file: 'src/controllers/conversation/start/choose-sandbox.ts',
    from: 'const claimed = await access.claimWarmSandbox?.(conversation, signal);',
    to: 'await new Promise((resolve) => access.clock.after(60_000, resolve));\nconst claimed = await access.claimWarmSandbox?.(conversation, signal);',
    rule: 'no sandbox is created for a deleted conversation',
  },
  'a creation of unknown outcome is repeated under another name': {
    file: 'src/controllers/sandbox/creations.ts',
    from: 'podCreations.failed(uid, error);',
    to: "if (error.name === 'TransportError') return client.create(pods, { ...pod, metadata: { ...pod.metadata, name: `${pod.metadata.name}-2` } }, { metadataOnly: true, signal });\npodCreations.failed(uid, error);",
    rule: /a sandbox has one pod at most|a volume has one agent at most/,
    focus: 'answers',
  },
  'the deletion of a pod is repeated without its precondition': {
    file: 'src/controllers/sandbox/agent-stops.ts',
    from: 'await deleteObject({ client, signal }, pods, pod);\n    return { progress };',
    to: `await deleteObject({ client, signal }, pods, pod);
    const { namespace, name } = pod.metadata;
    this.#options.clock.after(2_000, () => void client.delete(pods, namespace, name).catch(() => undefined));
    return { progress };`,
    rule: 'no pod is deleted while its sandbox should run',
    world,
  },
  'the writes of a leader are not fenced': {
    file: 'packages/kube/src/intercepted-client.ts',
    from: 'run() : fencedWrite(fence, options, run)',
    to: 'run() : run()',
    rule: 'only the leader writes',
    faults: 'of leaders',
    world,
  },
  'the first message is sent again': {
    file: 'src/controllers/conversation/start/create-conversation.ts',
    from: 'return await agent.createConversation(',
    to: 'await agent.forget(endpoint, conversationIdOf(conversation), { signal });\nreturn await agent.createConversation(',
    rule: 'an agent receives a first message once',
    world,
    seeds: rareSeeds,
  },
  'a pod is deleted without an interrupt of its runs': {
    file: 'src/controllers/sandbox/agent-stops.ts',
    from: 'return (await this.#ask(endpoint, agent.runningConversations(endpoint, { signal }))) ?? [];',
    to: 'return [];',
    rule: 'a run is interrupted before its pod is deleted',
    faults: 'none',
    world,
  },
  'a sandbox is RUNNING before its agent has answered': {
    file: 'src/controllers/sandbox/agent-connection.ts',
    from: "if (state === 'unreachable') return { connected: false };",
    to: "if (state === 'unreachable') return { connected: true };",
    rule: 'a sandbox is RUNNING only after its agent has answered',
    world,
  },
  'a status contains the session key': {
    file: 'src/controllers/sandbox/agent-connector.ts',
    from: 'progress: { ...observed, ...runningProgress, containerID, introduction } }',
    to: 'progress: { ...observed, ...runningProgress, containerID, introduction, message: keys.sessionKey(sandbox.metadata.uid, sandbox.status?.masterKeyId) } }',
    rule: noSecret,
    world,
  },
  'a pod contains the secret key of its agent': {
    file: 'src/controllers/sandbox/creations.ts',
    from: 'bootstrapKey: keys.bootstrapKey(',
    to: 'bootstrapKey: keys.secretKey(',
    rule: noSecret,
    world,
  },
  'a run resumes that its owner has paused': {
    file: `${execution}/decide.ts`,
    from: 'status: interrupted(interruption),\n    resume: reason !== Interruption.user || runRequested',
    to: 'status: interrupted(interruption),\n    resume: true',
    rule: 'a run that its owner has paused stays paused',
    focus: 'use',
    faults: 'none',
  },
  'rejected resumes are not counted': {
    file: `${execution}/run-resume.ts`,
    from: 'resumeRejections: resumeRejections + 1 }',
    to: 'resumeRejections }',
    rule: settles,
    focus: 'broken',
    seeds: rareSeeds,
  },
  'an interrupted run is given up at once': {
    file: `${execution}/run-resume.ts`,
    from: "if (resumeRejections >= maxResumeRejections) return 'Refused';",
    to: "if (resumeRejections >= 0) return 'Refused';",
    rule: settles,
    focus: 'broken',
  },
  'the error of a failed run is not read': {
    file: `${execution}/run-observer.ts`,
    from: 'return failure === undefined ? undefined : shown(',
    to: 'return failure === undefined || shown ? undefined : shown(',
    rule: 'a run that has failed is not resumed',
    focus: 'ends',
    faults: 'none',
  },
  'an action that waits for a confirmation is lost with its pod': {
    file: 'src/controllers/sandbox/agent-stops.ts',
    from: 'this.#ask(endpoint, agent.losableQuestions(endpoint, { signal: patience.signal }))',
    to: '[]',
    rule: 'no pod is deleted while an action waits for a confirmation',
    focus: 'ends',
    faults: 'none',
  },
  'a run that was observed once never ends': {
    file: `${execution}/run-observer.ts`,
    from: "if (!isOutdated || state.executionStatus === 'waiting_for_confirmation') return state;",
    to: "if (executionStatus !== 'running' && !isOutdated) return state;",
    rule: 'no conversation is reported as running without a running agent',
    world,
  },
  'a run that was lost before it was saved counts as finished': {
    file: `${execution}/run-observer.ts`,
    from: "if (!isOutdated || state.executionStatus === 'waiting_for_confirmation') return state;",
    to: "if (state.executionStatus === 'idle') return { ...state, executionStatus: 'finished' };\nif (!isOutdated || state.executionStatus === 'waiting_for_confirmation') return state;",
    rule: settles,
    focus: 'broken',
  },
  'a pause is reverted': {
    file: 'src/controllers/sandbox/reconcile.ts',
    from: 'this.#explain(sandbox, { ...sandbox, status }, serverMessage);',
    to: 'if (sandbox.spec.replicas === 0) await this.#options.client.mergePatch(sandboxes, namespace, name, { spec: { replicas: 1 } }, { signal });',
    rule: 'the operator does not change the spec of a sandbox',
    world,
  },
  'a start loses its first transition': {
    file: 'src/controllers/conversation/start/start-status.ts',
    from: 'transitions: [...transitions, next] };',
    to: "transitions: [...transitions, next].slice(next.status === 'READY' ? 1 : 0) };",
    rule: 'transitions of a start are only appended',
    world,
  },
  'every poll of an agent changes the status': {
    file: `${execution}/decide.ts`,
    from: '{ lastActivityTime: agent.updatedAt }',
    to: '{ lastActivityTime: new Date(nowMs).toISOString() }',
    rule: /no hot loop|everything settles|a settled system stays settled/,
    world,
  },
  'a message is sent again without a check whether the agent has it': {
    file: delivery,
    from: 'if (isStored(message, await agent.userMessagesAfter(endpoint, id, inFlight.after, { signal })))',
    to: 'if (isStored(message, []))',
    rule: deliveredOnce,
    messages: true,
    world,
  },
  'a message is sent before its delivery is stored': {
    file: delivery,
    from: 'const marked = await recipient.save(withInFlight(status, mark));',
    to: 'const marked = withInFlight(status, mark);',
    rule: deliveredOnce,
    messages: true,
    world,
  },
  'a message counts as delivered without an answer of the agent': {
    file: delivery,
    from: '? { status, isDone: false }\n        : {',
    to: '? { status: withDelivered(status, message, { now: isoTime(clock) }), isDone: true }\n        : {',
    rule: deliveredOnce,
    messages: true,
    world,
  },
  'a message that waits in an agent is sent again': {
    file: delivery,
    from: '? { status, isDone: false }\n        : {',
    to: '? { status: withNothingInFlight(status), isDone: false, error }\n        : {',
    rule: deliveredOnce,
    messages: true,
    world,
  },
  'volume claims have no owner': {
    file: 'src/controllers/sandbox/claim.ts',
    from: '...(retain ? {} : { ownerReferences: [ownerReferenceTo(sandbox, { controller: true })] })',
    to: '...{}',
    rule: settles,
    world,
  },
  'an agent that sends notifications is never polled': {
    file: 'src/controllers/conversation/polling/poll-schedule.ts',
    from: 'attentive ? now + interval : nextOnGrid(',
    to: 'entry.notifies ? Infinity : attentive ? now + interval : nextOnGrid(',
    rule: /no conversation is reported as running without a running agent|no unresponsive agent is reported as running/,
    focus: 'webhooks',
  },
  'an unresponsive agent is never recorded': {
    file: 'src/controllers/agent-calls/unresponsive-agents.ts',
    from: 'this.#failing.set(key, failing);',
    to: '',
    rule: 'no unresponsive agent is reported as running',
    focus: 'silence',
  },
  'an agent that was unresponsive is never probed again': {
    file: 'src/controllers/sandbox/agent-connector.ts',
    from: 'const isSilent = sandbox.status?.lastContainerID === containerID;',
    to: 'const isSilent = sandbox.status?.lastContainerID === containerID;\nif (viewOfSandbox(sandbox).reason === unready.silent.reason) return { progress: { ...observed, ready: false, ...unready.silent, wanted: true }, requeueAfterMs: 5_000 };',
    rule: /an agent that answers again is reported as responsive|everything settles/,
    world,
  },
  'a stuck run is never interrupted': {
    file: `${execution}/run-observer.ts`,
    from: 'return this.#lastSigns.lastsMs(key, sign);',
    to: 'return 0;',
    rule: settles,
    seeds: rareSeeds,
    world,
  },
  'a run is interrupted at its first poll': {
    file: `${execution}/run-observer.ts`,
    from: 'return this.#lastSigns.lastsMs(key, sign);',
    to: 'return 1e9;',
    rule: 'only a run that reports nothing is interrupted as stuck',
    world,
  },
  'the interrupt of a stuck run is not stored': {
    file: `${execution}/run-control.ts`,
    from: 'const interrupted = await save(withRunStuck(status, isoTime(clock), stuckAfter));',
    to: 'const interrupted = status;',
    rule: settles,
    seeds: rareSeeds,
    world,
  },
} as const satisfies Readonly<Record<string, Mutant>>;
