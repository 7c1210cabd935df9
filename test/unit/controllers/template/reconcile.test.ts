import { TemplateReconciler } from '../../../../src/controllers/template/reconcile.ts';
import { ApiError } from '@conversation-operator/kube/errors';
import { IndexedStore } from '@conversation-operator/kube/store';
import {
  sandboxTemplates,
  type SandboxTemplate,
} from '../../../../src/resources/sandbox-template.ts';
import { findCondition } from '../../../../src/resources/conditions.ts';
import { aTemplate, noonMs } from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const forbidden = (message: string) =>
  new ApiError(403, { reason: 'Forbidden', message: `pods "dry-run" is forbidden: ${message}` });

it.each<[string, string, ApiError]>([
  [
    'a LimitRange that forbids its size',
    'False/LimitRangeViolated',
    forbidden('maximum cpu usage per Container is 500m, but limit is 1'),
  ],
  [
    // The plugin sets the default before the API server validates the pod.
    'a LimitRange whose default limit is below its request',
    'False/TemplateInvalid',
    new ApiError(422, {
      reason: 'Invalid',
      message:
        'Pod "dry-run" is invalid: spec.containers[0].resources.requests: Invalid value: "500m": must be less than or equal to cpu limit of 200m',
      details: { causes: [{ field: 'spec.containers[0].resources.requests' }] },
    }),
  ],
  [
    'a quota that wants what no LimitRange adds yet',
    'False/ResourcesNotSpecified',
    forbidden('failed quota: team-a: must specify limits.cpu for: agent'),
  ],
  [
    'a full quota',
    'Unknown/ResourceQuotaExceeded',
    forbidden('exceeded quota: team-a, requested: pods=1, used: pods=5, limited: pods=5'),
  ],
])('a template is valid again after %s', async (_sentence, expected, error) => {
  const client = new FakeKubeClient();
  const templates = new IndexedStore<SandboxTemplate>();
  const stored = client.put(sandboxTemplates, aTemplate());
  const { namespace, name } = stored.metadata;
  const reconciler = new TemplateReconciler({
    client,
    clock: new VirtualClock(noonMs),
    stores: { templates },
  });
  const reconcile = async () => {
    templates.set(await client.get(sandboxTemplates, namespace, name));
    const result = await reconciler.reconcile({ namespace, name }, new AbortController().signal);
    const { status } = await client.get(sandboxTemplates, namespace, name);
    const valid = findCondition(status?.conditions, 'Valid');
    return [`${valid?.status ?? ''}/${valid?.reason ?? ''}`, result?.requeueAfterMs];
  };
  client.fault = ({ verb, plural }) => (verb === 'create' && plural === 'pods' ? error : undefined);
  expect(await reconcile()).toEqual([expected, 60_000]);
  expect(await reconcile()).toEqual([expected, 60_000]);
  client.fault = () => undefined;
  expect(await reconcile()).toEqual(['True/DryRunPassed', undefined]);
});
