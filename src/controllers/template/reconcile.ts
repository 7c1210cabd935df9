import type { KubeClient } from '@conversation-operator/kube/client';
import type { Stores, WatchedCaches } from '../caches.ts';
import { isDeepStrictEqual } from 'node:util';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { Request, Result } from '@conversation-operator/kube/controller';
import { findCondition, setConditions, type Condition } from '../../resources/conditions.ts';
import { persistentVolumeClaims, pods } from '@conversation-operator/kube/core';
import { apiVersion } from '../../resources/group.ts';
import { isLive, type ObjectMeta } from '@conversation-operator/kube/object';
import { beginningOf } from '../../resources/plain-text.ts';
import { sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import {
  agentContainerOf,
  sandboxTemplates,
  type SandboxTemplate,
} from '../../resources/sandbox-template.ts';
import { buildClaim } from '../sandbox/claim.ts';
import { buildPod, type SandboxOutward } from '../sandbox/pod.ts';
import { createErrorOf, type CreatedKind } from '../sandbox/create-error.ts';
import { FailureCode, isCreateErrorCode } from '../sandbox/failure.ts';
import { requestOf, watch, type ControllerSpec, workers } from '../controller-spec.ts';

export interface TemplateReconcilerOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly stores: Pick<Stores, 'templates'>;
  readonly outward?: SandboxOutward | undefined;
}

type Verdict = Pick<Condition, 'status' | 'reason' | 'message'>;

/** Delay before a rejected template gets another dry run: the cluster may accept it later. */
const judgeAgainMs = 60_000;

/** Codes of rejections whose cause is not the template. */
const notItsFault: ReadonlySet<FailureCode> = new Set([
  FailureCode.resourceQuotaExceeded,
  FailureCode.admissionUnavailable,
  FailureCode.permissionDenied,
  FailureCode.namespaceTerminating,
]);

/**
 * Whether the rejection may end without an edit of the template. For example, a pod is invalid
 * while the default limit of a LimitRange is below the request of the template.
 */
const mayChange = isCreateErrorCode;

/** A sandbox for building the pod of a dry run. The sandbox is never stored. */
const specimen = (template: SandboxTemplate): Sandbox => ({
  apiVersion,
  kind: sandboxes.kind,
  metadata: {
    ...template.metadata,
    name: `dry-run-${template.metadata.uid}`,
    namespace: template.metadata.namespace,
  },
  spec: { owner: 'dry-run', templateName: template.metadata.name, replicas: 1 },
});

/** Reports in the condition Valid whether the API server accepts pods and volumes of a template. */
export class TemplateReconciler {
  readonly #options: TemplateReconcilerOptions;

  constructor(options: TemplateReconcilerOptions) {
    this.#options = options;
  }

  async reconcile({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const { client, stores, clock } = this.#options;
    const template = stores.templates.get(namespace, name);
    if (template === undefined || !isLive(template)) return undefined;
    const { generation } = template.metadata;
    const known = findCondition(template.status?.conditions, 'Valid');
    if (
      template.status?.observedGeneration === generation &&
      (known === undefined || !mayChange(known.reason))
    )
      return undefined;
    const verdict = await this.#judge(template, signal);
    const status = {
      observedGeneration: generation,
      conditions: setConditions(
        template.status?.conditions,
        [{ type: 'Valid', ...verdict }],
        generation,
        isoTime(clock),
      ),
    };
    if (!isDeepStrictEqual(status, template.status))
      await client.updateStatus(sandboxTemplates, { ...template, status }, { signal });
    return mayChange(verdict.reason) ? { requeueAfterMs: judgeAgainMs } : undefined;
  }

  async #judge(template: SandboxTemplate, signal: AbortSignal): Promise<Verdict> {
    if (agentContainerOf(template) === undefined) {
      const message =
        'spec.podTemplate.spec.containers is empty; one container has to run the agent.';
      return { status: 'False', reason: 'NoContainer', message };
    }
    const { client, outward } = this.#options;
    const sandbox = specimen(template);
    // Admission plugins may read an owner, which is not stored here, so the dry run names none.
    const ownerless = <T extends { readonly metadata: Partial<ObjectMeta> }>({
      metadata,
      ...rest
    }: T) => {
      const { ownerReferences: _, ...plain } = metadata;
      return { ...rest, metadata: plain };
    };
    const pod = ownerless(buildPod(sandbox, template, { bootstrapKey: 'dry-run', outward }));
    const claim = ownerless(buildClaim(sandbox, template));
    return (
      (await this.#refused('pod', () => client.create(pods, pod, { dryRun: true, signal }))) ??
      (await this.#refused('volume', () =>
        client.create(persistentVolumeClaims, claim, { dryRun: true, signal }),
      )) ?? {
        status: 'True',
        reason: 'DryRunPassed',
        message: 'The API server accepts a pod and a volume claim made of it.',
      }
    );
  }

  async #refused(what: CreatedKind, dryRun: () => Promise<unknown>): Promise<Verdict | undefined> {
    try {
      await dryRun();
      return undefined;
    } catch (error) {
      const refusal = createErrorOf(error, what);
      if (refusal === undefined) throw error;
      // Administrators see the text of the API server here; the REST API never shows the text.
      const message = beginningOf(
        `${refusal.message} The API server says: ${refusal.serverMessage}`,
        2048,
      );
      return {
        status: notItsFault.has(refusal.code) ? 'Unknown' : 'False',
        reason: refusal.code,
        message,
      };
    }
  }
}

export const templateController = (
  caches: Pick<WatchedCaches, 'templates'>,
  reconciler: Pick<TemplateReconciler, 'reconcile'>,
): ControllerSpec => ({
  name: 'template',
  workers: workers.template,
  sources: [watch(caches.templates, (template) => [requestOf(template)])],
  reconcile: (request, signal) => reconciler.reconcile(request, signal),
});
