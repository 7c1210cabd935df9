import { rareSeeds, type Mutant } from './mutant.ts';

const exceeded = 'the limit is never exceeded';
const onRequest = 'a sandbox is admitted only on a request or by an automatic resume';
const classify = 'src/quota/classify.ts';
const calm = { faults: 'none', focus: 'quota' } as const;
const resumes = { faults: 'none', focus: 'resumes' } as const;

/** Mistakes in who gets a slot, and in how long a slot is taken. */
export const admissionMutants = {
  'sandboxes that start are not counted': {
    file: classify,
    from: 'taken: slotTaken(sandbox),\n    sandbox,',
    to: "taken: state !== 'starting' && slotTaken(sandbox),\nsandbox,",
    rule: exceeded,
    ...calm,
  },
  'a pod that is being deleted counts as gone': {
    file: 'src/controllers/sandbox/agent-stops.ts',
    from: 'await deleteObject({ client, signal }, pods, pod);\n    return { progress };',
    to: 'await deleteObject({ client, signal }, pods, pod);\nreturn { progress: { ...progress, released: true } };',
    rule: 'only a sandbox with a slot has a pod',
    ...calm,
  },
  'the pods of deleted sandboxes are forgotten': {
    file: 'src/controllers/admission/cache.ts',
    from: 'if (isTaken) this.addOrphaned(known);',
    to: 'void isTaken;',
    rule: exceeded,
    ...calm,
  },
  'a write of unknown outcome counts as not executed': {
    file: 'src/controllers/admission/reconcile.ts',
    from: 'cache.assume(sandbox, { ...assumedSlot(decision), until: sentAt + this.#settleMs });',
    to: "cache.assume(sandbox, { state: 'none', taken: decision.slot.taken, until: sentAt + this.#settleMs });",
    rule: exceeded,
    focus: 'quota',
    seeds: rareSeeds,
  },
  'an admission is written regardless of the version': {
    file: 'src/controllers/admission/reconcile.ts',
    from: 'const storing = client.updateStatus(sandboxes, decided, { signal });',
    to: `const storing = client.get(sandboxes, namespace, sandbox.metadata.name, { signal }).then(
      ({ metadata: { resourceVersion } }) =>
        client.updateStatus(sandboxes, { ...decided, metadata: { ...decided.metadata, resourceVersion } }, { signal }),
    );`,
    seeds: rareSeeds,
    focus: 'lag',
    rule: /a sandbox is admitted only on a request or by an automatic resume|the master key of a sandbox does not change/,
    faults: 'of handovers',
  },
  'a pod is created without a reservation': {
    file: 'src/controllers/sandbox/status.ts',
    from: 'status?.replicas === 1 && status.masterKeyId !== undefined;',
    to: 'status?.masterKeyId !== undefined;',
    rule: 'only a sandbox with a slot has a pod',
    ...calm,
  },
  // The slowest of API servers creates each pod seconds after its creation was given up.
  'pod creations of unknown outcome are forgotten': {
    file: 'src/controllers/sandbox/creations.ts',
    from: 'return await client.create(pods, pod, { metadataOnly: true, signal });\n    } catch (error) {\n      podCreations.failed(uid, error);',
    to: `this.#options.clock.after(4_000, () => void client.create(pods, pod).catch(() => undefined));
      throw Object.assign(new Error('the answer is lost'), { name: 'TransportError', sent: true });
    } catch (error) {`,
    rule: 'only a sandbox with a slot has a pod',
    ...calm,
  },
  'sandboxes that start may be evicted': {
    file: classify,
    from: "return isStarted ? 'running' : 'starting';",
    to: "return isStarted ? 'running' : 'running';",
    rule: 'a sandbox that still starts is not evicted',
    ...calm,
  },
  'an automatic resume evicts other sandboxes': {
    file: 'src/quota/snapshot.ts',
    from: 'const old = this.#slots.get(given.uid);',
    to: "if (given.state === 'resumable') given = { ...given, state: 'waiting', requestedAt: given.pausedSince };\nconst old = this.#slots.get(given.uid);",
    rule: 'newcomers come first',
    ...calm,
  },
  'no sandbox resumes automatically': {
    file: classify,
    from: "? 'resumable'\n    : 'suspended';",
    to: "? 'suspended' : 'suspended';",
    rule: 'everything settles',
    ...resumes,
  },
  'a sandbox that its owner has paused resumes automatically': {
    file: classify,
    from: "if (!wanted) return taken ? 'freeing' : 'none';",
    to: "if (!wanted) return taken ? 'freeing' : spec.replicas === 0 ? 'resumable' : 'none';",
    rule: onRequest,
    ...calm,
  },
  'a sandbox that was paused for its age resumes automatically': {
    file: 'src/quota/snapshot.ts',
    from: 'const old = this.#slots.get(given.uid);',
    to: "if (given.state === 'suspended') given = { ...given, state: 'resumable' };\nconst old = this.#slots.get(given.uid);",
    rule: /a sandbox is admitted only on a request or by an automatic resume|automatic resumes of a sandbox keep their delay/,
    ...resumes,
  },
  'a resume with a message counts as a bare resume': {
    file: classify,
    from: 'isUnderWay(conversation) || hasUndelivered(conversation)) &&',
    to: 'isUnderWay(conversation)) &&',
    rule: /everything settles|first come, first served|no controller runs hot/,
    messages: true,
    ...calm,
  },
  'an automatic resume counts as a request of a person': {
    file: classify,
    from: "automatic: (state === 'starting' || state === 'running') && isAutomatic(sandbox, conversations),",
    to: 'automatic: false,',
    rule: /^an idle sandbox that resumed automatically is evicted first|^automatic resumes of a sandbox keep their delay/,
    ...resumes,
  },
  'automatic resumes have no delay': {
    file: classify,
    from: "steady('resumed', time(automaticResumes.lastTime, now)) + resumeDelayMs(automaticResumes)",
    to: '0',
    rule: 'automatic resumes of a sandbox keep their delay',
    ...resumes,
  },
  'a sandbox without unfinished work resumes automatically again': {
    file: classify,
    from: 'return mayResume && (status?.automaticResumes === undefined || isUnfinishedIn(inside))',
    to: 'return mayResume',
    rule: /^a sandbox without unfinished work resumes automatically only once|^automatic resumes of a sandbox keep their delay/,
    seeds: rareSeeds,
    ...resumes,
  },
  'a sandbox that starts is stalled at once': {
    file: 'src/quota/time-limits.ts',
    from: '    stalledAt,\n    expiry: startsInIt',
    to: '    stalledAt: 0,\n    expiry: startsInIt',
    rule: 'a sandbox that still starts is not evicted',
    ...calm,
  },
  'the pods of deleted sandboxes are never read': {
    file: 'src/controllers/admission/reads.ts',
    from: 'if (orphaned.length === 0) {',
    to: 'if (orphaned.length >= 0) {',
    rule: 'everything settles',
    ...calm,
  },
  'a change of a quota is ignored': {
    file: 'src/quota/rules.ts',
    from: 'if (known !== undefined && !isNewerVersion(quota, known)) return false;',
    to: 'if (known !== undefined) return false;',
    rule: /the limit is never exceeded|no sandbox is evicted without need|a sandbox that must not resume stays paused/,
    seeds: rareSeeds,
    ...calm,
  },
  'the limit of the namespace is ignored': {
    file: 'src/quota/snapshot.ts',
    from: 'this.#rules = rules;',
    to: 'this.#rules = { ...rules, namespace: undefined };',
    rule: exceeded,
    ...calm,
  },
} as const satisfies Readonly<Record<string, Mutant>>;
