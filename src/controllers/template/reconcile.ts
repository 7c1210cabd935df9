import { isDeepStrictEqual } from 'node:util';
import type { KubeClient } from '../../kube/client.ts';
import { isoTime, type Clock } from '../../kube/clock.ts';
import type { Request, Result } from '../../kube/controller.ts';
import { isForbidden, isInvalid } from '../../kube/errors.ts';
import type { Store } from '../../kube/store.ts';
import { setCondition } from '../../resources/conditions.ts';
import { pods } from '../../resources/core.ts';
import { apiVersion } from '../../resources/group.ts';
import { sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { agentContainerOf, sandboxTemplates, type SandboxTemplate } from '../../resources/sandbox-template.ts';
import { buildPod } from '../sandbox/pod.ts';

export interface TemplateReconcilerOptions {
  readonly client: KubeClient;
  readonly stores: { readonly templates: Store<SandboxTemplate> };
  readonly clock: Clock;
}

interface Verdict {
  readonly valid: boolean;
  readonly reason: string;
  readonly message: string;
}

/** A sandbox that will never exist, to make a pod of for the dry run. */
const specimen = (template: SandboxTemplate): Sandbox => ({
  apiVersion,
  kind: sandboxes.kind,
  metadata: { ...template.metadata, name: `dry-run-${template.metadata.uid}`, namespace: template.metadata.namespace },
  spec: { owner: 'dry-run', templateName: template.metadata.name, replicas: 1 },
});

/** Tells the author of a template whether pods can be made of it, before somebody's start fails. */
export class TemplateReconciler {
  readonly #options: TemplateReconcilerOptions;

  constructor(options: TemplateReconcilerOptions) {
    this.#options = options;
  }

  async reconcile({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const { client, stores, clock } = this.#options;
    const template = stores.templates.get(namespace, name);
    if (template === undefined || template.metadata.deletionTimestamp !== undefined) return undefined;
    const { generation } = template.metadata;
    if (template.status?.observedGeneration === generation) return undefined;
    const { valid, reason, message } = await this.#judge(template, signal);
    const conditions = setCondition(
      template.status?.conditions,
      { type: 'Valid', status: valid ? 'True' : 'False', reason, message, observedGeneration: generation },
      isoTime(clock),
    );
    const status = { observedGeneration: generation, conditions: [...conditions] };
    if (!isDeepStrictEqual(status, template.status)) await client.updateStatus(sandboxTemplates, { ...template, status }, { signal });
    return undefined;
  }

  async #judge(template: SandboxTemplate, signal: AbortSignal): Promise<Verdict> {
    if (agentContainerOf(template) === undefined) {
      return {
        valid: false,
        reason: 'NoContainer',
        message: 'spec.podTemplate.spec.containers is empty; one container has to run the agent.',
      };
    }
    try {
      const { metadata, ...pod } = buildPod(specimen(template), template, 'dry-run');
      // Without its owner, which would be looked up.
      const { ownerReferences, ...plain } = metadata;
      await this.#options.client.create(pods, { ...pod, metadata: plain }, { dryRun: true, signal });
      return { valid: true, reason: 'DryRunPassed', message: 'The API server accepts a pod made of it.' };
    } catch (error) {
      // For the platform's people, who may read what their API server says; REST never shows it.
      if (isInvalid(error) || isForbidden(error)) return { valid: false, reason: 'DryRunRefused', message: error.message.slice(0, 2048) };
      throw error;
    }
  }
}
