import { rareSeeds, type Mutant } from './mutant.ts';

/** Mistakes in what wakes a controller, what it remembers, and when it tries again. */
export const controllerMutants = {
  'a success leaves the back-off of its key as it is': {
    file: 'packages/kube/src/controller.ts',
    from: 'this.#queue.forget(key);',
    to: '',
    rule: 'a failure after a success is retried soon',
  },
  'the operator ignores changes of claims': {
    file: 'src/controllers/sandbox/controller.ts',
    from: 'watch(caches.claims, sandboxOf),',
    to: '',
    rule: 'a pod is created in time',
    seeds: rareSeeds,
  },
  'the operator ignores changes of pods': {
    file: 'src/controllers/sandbox/controller.ts',
    from: 'watch(caches.pods, sandboxOf),',
    to: '',
    rule: /everything settles|a sandbox whose agent answers is RUNNING in time/,
  },
  'the operator ignores changes of templates': {
    file: 'src/controllers/template/reconcile.ts',
    from: 'watch(caches.templates, (template) => [requestOf(template)])',
    to: '',
    rule: 'a template is validated in time',
  },
  'the sandbox controller ignores changes of sandboxes': {
    file: 'src/controllers/sandbox/controller.ts',
    from: 'watch(caches.sandboxes, (sandbox) => [requestOf(sandbox)]),',
    to: '',
    rule: /everything settles|a pod is created in time/,
  },
  'the conversation controller ignores changes of sandboxes': {
    file: 'src/controllers/conversation/controllers.ts',
    from: 'watch(caches.sandboxes, usersOf),',
    to: '',
    rule: 'everything settles',
  },
  'the conversation controller ignores changes of the spec': {
    file: 'src/controllers/conversation/controllers.ts',
    from: '  conversation.metadata.generation !== old.metadata.generation ||\n',
    to: '',
    rule: 'a message is delivered in time',
    focus: 'use',
    faults: 'none',
    messages: true,
  },
  'the last write of a process is forgotten': {
    file: 'packages/kube/src/store.ts',
    from: 'if (known === undefined || isNewerVersion(object, known)) this.#ahead.set(key, { object });',
    to: '',
    rule: 'no controller acts on a version that it has overwritten',
  },
  'failures are not counted': {
    file: 'packages/kube/src/workqueue.ts',
    from: 'this.#failures.set(key, failures);',
    to: '',
    rule: 'no controller runs hot',
    focus: 'failures',
    faults: 'none',
  },
  'a failure is retried at once': {
    file: 'packages/kube/src/controller.ts',
    from: 'this.#queue.addRateLimited(key, error instanceof ApiError ? error.retryAfterMs : 0);',
    to: 'this.#queue.add(key);',
    rule: 'no controller runs hot',
    focus: 'failures',
    faults: 'none',
  },
  'an owner gets none of its workers back': {
    file: 'packages/kube/src/fair-queue.ts',
    from: 'share.taken--;',
    to: '',
    rule: /everything settles|a start begins in time/,
  },
} as const satisfies Readonly<Record<string, Mutant>>;
