import { eventually } from '../support/eventually.ts';
import type { Body } from '../support/plane.ts';
import { RenderedChart } from '../support/rendered-chart.ts';
import { isReal, useServer } from '../../packages/local-cluster/test/conformance/support/server.ts';

/* oxlint-disable
   @typescript-eslint/no-unsafe-assignment,
   @typescript-eslint/no-unsafe-member-access
   -- resources of every kind; a wrong guess fails the test */

// The embedded control plane has no ResourceQuotas.
const ofRealServers = isReal ? describe : describe.skip;

ofRealServers("the chart's quota on the number of objects", () => {
  const server = useServer();

  it('lets in as many conversations as it says, and refuses the next one', async () => {
    const { namespace } = server();
    const chart = await RenderedChart.of(4, {
      values: { objectQuota: { enabled: true, conversations: 2 }, sandboxes: { namespace } },
    });
    const quota: Body = chart.one('ResourceQuota');
    const create = async (name: string) => {
      const object = {
        apiVersion: 'conversation-operator.dev/v1alpha1',
        kind: 'Conversation',
        metadata: { name },
        spec: { owner: 'alice' },
      };
      const { status, text } = await server().post(server().product('conversations'), object);
      return { status, text };
    };
    // A controller that has learnt of the kinds a moment ago counts them only for quotas that come
    // later.
    await eventually(
      'the kinds to be counted',
      async () => {
        await server().delete(server().core('resourcequotas', quota.metadata.name as string));
        await server().post(server().core('resourcequotas'), quota);
        await new Promise((resolve) => setTimeout(resolve, 2_000));
        return (await create('first')).status === 201;
      },
      90_000,
    );
    expect((await create('second')).status).toBe(201);
    const { status, text } = await create('third');
    expect(status).toBe(403);
    expect(text).toContain('exceeded quota');
  }, 100_000);
});
