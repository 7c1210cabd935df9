import { persistentVolumeClaims, pods, type Pod } from '@conversation-operator/kube/core';
import { SandboxCondition, sandboxes, type Sandbox } from '../../../src/resources/sandbox.ts';
import type { Change } from '../../simulation/cluster.ts';
import {
  StartDeadlineCheck,
  type StartDeadlineCheckOptions,
} from '../../simulation/start-deadline-check.ts';
import { Traffic } from '../../simulation/traffic.ts';
import { aPod, aSandbox, admitted, condition } from '../../support/builders.ts';

const waiting = aSandbox({ status: { replicas: 1, conditions: [admitted] } });
const paused = aSandbox({ replicas: 0, status: { replicas: 1, conditions: [admitted] } });
const overdue = 'StartDeadlineExceeded';
const failed = aSandbox({
  status: {
    replicas: 1,
    conditions: [admitted, condition(SandboxCondition.failed, 'True', overdue)],
  },
});

/** The check, and what happens in the cluster: each step takes place a number of seconds later. */
class Scene {
  readonly #traffic = new Traffic();
  readonly #pods: Pod[] = [];
  #observe: (change: Change) => void = () => undefined;
  #now = 0;

  constructor() {
    const options = {
      cluster: {
        onChange: (observe: (change: Change) => void) => (this.#observe = observe),
        pods: this.#pods,
      },
      node: { waitOf: () => undefined },
      traffic: this.#traffic,
      scheduler: { monotonic: () => this.#now },
      history: { of: () => undefined },
      startDeadline: '30s',
    };
    new StartDeadlineCheck(options as unknown as StartDeadlineCheckOptions);
    this.stores(0, waiting);
  }

  stores(afterSeconds: number, object: Sandbox): this {
    return this.#changes(afterSeconds, sandboxes.plural, 'MODIFIED', object);
  }

  hasPod(afterSeconds: number): this {
    const pod = aPod(waiting);
    this.#pods.push(pod);
    return this.#changes(afterSeconds, pods.plural, 'ADDED', pod);
  }

  hasOther(afterSeconds: number): this {
    return this.#changes(afterSeconds, persistentVolumeClaims.plural, 'ADDED', aPod(waiting));
  }

  answers(afterSeconds: number, status: number, answer = ''): this {
    this.#now += 1_000 * afterSeconds;
    const body = JSON.stringify(aPod(waiting));
    const path = '/api/v1/namespaces/default/pods';
    this.#traffic.answered({ actor: 'operator-0', method: 'POST', path, body }, status, answer);
    return this;
  }

  refuses(afterSeconds: number): this {
    return this.answers(afterSeconds, 403, 'pods is forbidden: exceeded quota: full');
  }

  #changes(
    afterSeconds: number,
    plural: string,
    type: 'ADDED' | 'MODIFIED',
    object: Pod | Sandbox,
  ): this {
    this.#now += 1_000 * afterSeconds;
    this.#observe({ plural, type, object, before: undefined } as Change);
    return this;
  }
}

const rule = 'a wait for the cluster counts for no start deadline';

describe('the check of a wait for a resource quota', () => {
  it.each<[string, (scene: Scene) => Scene]>([
    ['the quota refuses the pod', (scene) => scene.refuses(40)],
    ['the API server fails meanwhile', (scene) => scene.answers(20, 500).answers(20, 429)],
    ['another object is made', (scene) => scene.hasOther(40)],
  ])('lasts while %s', (_sentence, happens) => {
    const scene = happens(new Scene().refuses(1));
    expect(() => scene.stores(10, failed)).toThrow(rule);
  });

  it.each<[string, (scene: Scene) => Scene]>([
    ['with the answer that the pod was made', (scene) => scene.answers(40, 201)],
    ['with another answer than that', (scene) => scene.answers(40, 409)],
    ['with a pod whose creation had no answer', (scene) => scene.hasPod(40)],
    [
      'with a pod of a late creation, though the quota refuses another',
      (scene) => scene.hasPod(40).refuses(0),
    ],
    ['with a pause', (scene) => scene.stores(40, paused).stores(0, waiting)],
  ])('ends %s, and the deadline begins', (_sentence, happens) => {
    const early = happens(new Scene().refuses(1));
    expect(() => early.stores(29, failed)).toThrow(rule);
    const late = happens(new Scene().refuses(1));
    expect(() => late.stores(30, failed)).not.toThrow();
  });
});
