import type { KubeClient } from '@conversation-operator/kube/client';
import { ApiError } from '@conversation-operator/kube/errors';
import { requestResume } from '../../../../src/gateway/sandboxes/resume.ts';
import type { Sandbox } from '../../../../src/resources/sandbox.ts';
import { aSandbox } from '../../../support/builders.ts';

/** The API server, where bob has the sandbox now: it refuses a patch that names another owner. */
const clientOfBobs = (written: unknown[]) =>
  ({
    mergePatch: (_resource: unknown, _namespace: string, _name: string, patch: Sandbox) => {
      const { owner = 'bob' } = patch.spec as Partial<Sandbox['spec']>;
      if (owner === 'bob') {
        written.push(patch);
        return Promise.resolve(aSandbox());
      }
      const causes = [{ message: 'owner', field: 'spec.owner' }];
      return Promise.reject(
        new ApiError(422, { message: 'invalid', code: 422, details: { causes } }),
      );
    },
  }) as unknown as KubeClient;

it('a late resume of the former owner changes nothing, and finds no sandbox', async () => {
  const written: unknown[] = [];
  const needs = {
    client: clientOfBobs(written),
    clock: { now: () => 0 } as never,
    feeds: { sandboxes: { shows: () => Promise.resolve() } },
  };
  await expect(requestResume(needs, aSandbox())).rejects.toMatchObject({ code: 'not-found' });
  expect(written).toEqual([]);
});
