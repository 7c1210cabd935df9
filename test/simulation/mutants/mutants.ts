import type { SimulationOptions } from '../simulation.ts';
import type { SourceMutation } from './mutated-source.ts';

/** A plausible mistake in one line of the product, and where the simulation finds it. */
export interface Mutant extends SourceMutation, Pick<SimulationOptions, 'faults' | 'letters' | 'world'> {
  readonly rule: string | RegExp;
  /** The first seed that finds the mistake. */
  readonly seed: number;
}

const activeSince = 'activeSince is when a sandbox began to run since its last pause';

/** Each mistake as a sentence. */
export const mutants = {
  'a success leaves the back-off of its key as it is': {
    file: 'kube/controller.ts',
    from: 'this.#queue.forget(key);',
    to: '',
    rule: 'a failure after a success is retried soon',
    seed: 1,
  },
  'activeSince ends with a lost pod': {
    file: 'controllers/sandbox/status.ts',
    from: '...(!ready && wanted && activeSince !== undefined ? { activeSince } : {}),',
    to: '',
    rule: activeSince,
    seed: 3,
  },
  'activeSince stays over a pause': {
    file: 'controllers/sandbox/status.ts',
    from: '...(!ready && wanted && activeSince',
    to: '...(!ready && activeSince',
    rule: activeSince,
    seed: 1,
  },
  'the change of a claim wakes nobody': {
    file: 'controllers/operator.ts',
    from: 'caches.claims.addHandler(onChange(owningSandbox)),',
    to: '',
    rule: 'a pod is made in time',
    seed: 11,
  },
  'the change of a pod wakes nobody': {
    file: 'controllers/operator.ts',
    from: 'caches.pods.addHandler(onChange(owningSandbox)),',
    to: '',
    rule: 'a pod is made in time',
    seed: 2,
  },
  'the change of a template wakes nobody': {
    file: 'controllers/operator.ts',
    from: 'template.enqueue(requestOf(object));',
    to: '',
    rule: 'a template is judged in time',
    seed: 1,
  },
  'the change of a sandbox wakes nobody': {
    file: 'controllers/operator.ts',
    from: 'sandbox.enqueue(request);\n      for',
    to: 'for',
    rule: 'a pause ends in time',
    seed: 5,
  },
  'the change of a sandbox wakes no conversation': {
    file: 'controllers/operator.ts',
    from: '        conversation.enqueue(requestOf(user));\n    };\n    const admit',
    to: '        void user;\n    };\n    const admit',
    rule: 'everything settles',
    seed: 1,
  },
  "the change of a conversation's spec wakes nobody": {
    file: 'controllers/operator.ts',
    from: '  conversation.metadata.generation !== old.metadata.generation ||\n',
    to: '',
    rule: 'a message is delivered in time',
    letters: true,
    seed: 4,
  },
  'what was written last is forgotten': {
    file: 'kube/newest-store.ts',
    from: 'if (known === undefined || isNewerVersion(object, known)) this.#ahead.set(key, object);',
    to: '',
    rule: 'a controller does not act on what it has overwritten',
    seed: 1,
  },
  'what a watch shows counts for the quota, however old': {
    file: 'controllers/admission/slot-index.ts',
    from: '!isNewerVersion(sandbox, known.sandbox)) {',
    to: 'known.sandbox === sandbox) {',
    rule: 'a controller does not act on what it has overwritten',
    seed: 3,
  },
  'a pause waits for its agent without a bound': {
    file: 'controllers/sandbox/agent-stops.ts',
    from: 'this.#isInTime(scope, pausedAt) && running.length',
    to: 'running.length',
    rule: 'a pause ends in time',
    letters: true,
    seed: 12,
  },
  'a pause waits for its agent for five minutes': {
    file: 'controllers/sandbox/agent-stops.ts',
    from: 'options.pauseBoundMs ?? 15_000',
    to: 'options.pauseBoundMs ?? 300_000',
    rule: 'a pause ends in time',
    letters: true,
    seed: 12,
  },
  'the last to come is let in first': {
    file: 'quota/group.ts',
    from: 'one.requestedAt - other.requestedAt || byName(one, other);',
    to: 'other.requestedAt - one.requestedAt || byName(one, other);',
    rule: 'first come, first served',
    faults: 'none',
    seed: 3,
  },
} as const satisfies Readonly<Record<string, Mutant>>;
