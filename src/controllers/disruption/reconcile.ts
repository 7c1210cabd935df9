import type { Runtime } from '@conversation-operator/base/runtime';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Request, Result } from '@conversation-operator/kube/controller';
import { pods } from '@conversation-operator/kube/core';
import { unlessChanged } from '@conversation-operator/kube/errors';
import { isOwnedBy } from '@conversation-operator/kube/object';
import type { Sandbox } from '../../resources/sandbox.ts';
import { isInSandbox } from '../../resources/sandbox-makers.ts';
import { bySandbox, type Stores } from '../caches.ts';
import { LastingValues } from '../elapsed-times.ts';
import { hasEnded } from '../sandbox/decide.ts';
import { decideDisruption, needsNode } from './decide.ts';

export interface DisruptionReconcilerOptions extends Pick<Runtime, 'clock'> {
  readonly client: Pick<KubeClient, 'mergePatch'>;
  readonly stores: Pick<Stores, 'sandboxes' | 'conversations' | 'pods' | 'templates'>;
}

/**
 * DisruptionReconciler keeps the annotations of a sandbox's pod that state whether autoscalers
 * may empty its node. All inputs are stored, so a new leader writes only what differs; it measures
 * the quiet time anew.
 */
export class DisruptionReconciler {
  readonly #options: DisruptionReconcilerOptions;
  readonly #needs: LastingValues;

  constructor(options: DisruptionReconcilerOptions) {
    this.#options = options;
    this.#needs = new LastingValues(options);
  }

  async reconcile({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const { client, stores } = this.#options;
    const sandbox = stores.sandboxes.get(namespace, name);
    const pod = stores.pods.get(namespace, name);
    if (sandbox === undefined || pod === undefined || !isOwnedBy(pod, sandbox)) return undefined;
    // The next pod begins with values of its own.
    if (pod.metadata.deletionTimestamp !== undefined || hasEnded(pod)) return undefined;
    const { uid } = pod.metadata;
    const isNeeded = this.#isNeeded(sandbox);
    const { change, requeueAfterMs } = decideDisruption({
      pod,
      template: stores.templates.get(namespace, sandbox.spec.templateName),
      isNeeded,
      quietForMs: this.#needs.lastsMs(uid, isNeeded),
    });
    if (change === undefined) return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
    // A pod that is gone, or another one of its name, needs no write.
    await unlessChanged(
      client.mergePatch(
        pods,
        namespace,
        name,
        { metadata: { uid, annotations: change } },
        { signal },
      ),
    );
    return undefined;
  }

  /** Forgets a pod that is gone. */
  forget(podUid: string): void {
    this.#needs.forget(podUid);
  }

  /** Spares have no conversations. */
  #isNeeded(sandbox: Sandbox): boolean {
    const { namespace, name } = sandbox.metadata;
    return this.#options.stores.conversations
      .byIndex(bySandbox, `${namespace}/${name}`)
      .some((conversation) => isInSandbox(conversation, sandbox) && needsNode(conversation));
  }
}
