import { readFileSync } from 'node:fs';
import { chartFolder } from '../../helm/tools/render.ts';
import { kubectl } from './support/cluster.ts';
import { chartValues, helm, readFacts, readFigures, release } from './support/installation.ts';
import { previousVersion } from './support/previous-chart.ts';

const facts = readFacts();
const k = (args: string) => kubectl(`--namespace ${facts.namespace} ${args}`);

describe('an installation on an empty cluster', () => {
  it('is ready within 60 s', () => {
    expect(Number.parseFloat(readFigures()['helm install --wait'] ?? '')).toBeLessThanOrEqual(60);
  });

  it('has two of each process, and one leader among them', async () => {
    const ready = await k(
      'get deployments -o jsonpath={range.items[*]}{.metadata.name}={.status.readyReplicas},{end}',
    );
    expect(ready).toBe(`${release}-gateway=2,${release}-operator=2,`);
    const leader = await kubectl(
      `--namespace ${facts.sandboxes} get lease conversation-operator -o jsonpath={.spec.holderIdentity}`,
    );
    const operators = await k('get pods -l app.kubernetes.io/component=operator -o name');
    expect(
      operators.split('\n').filter((name) => leader.includes(name.replace('pod/', ''))),
    ).toHaveLength(1);
  });

  it('passes helm test', async () => {
    await expect(
      helm(['test', release, '--namespace', facts.namespace, '--timeout', '300s']),
    ).resolves.toContain('Succeeded');
  });

  it('makes a default template that the API server accepts, and a quota', async () => {
    await kubectl(
      `--namespace ${facts.sandboxes} wait --for=condition=Valid sandboxtemplate/default --timeout=20s`,
    );
    expect(
      await kubectl(
        `--namespace ${facts.sandboxes} get conversationquota default -o jsonpath={.spec.limit}`,
      ),
    ).toBe('10');
  });

  it('runs without root, with nothing to write to, and without a shell in its path', async () => {
    for (const component of ['operator', 'gateway']) {
      const script =
        "const fs = require('fs'); let wrote = true; try { fs.writeFileSync('/app/x', '') } catch { wrote = false }; console.log(process.getuid(), wrote)";
      const answer = await kubectl([
        ...['--namespace', facts.namespace, 'exec', `deployment/${release}-${component}`, '--'],
        ...['/usr/local/bin/node', '--eval', script],
      ]);
      expect(answer).toBe('10001 false');
    }
  });

  it('enforces the restricted standard on sandboxes', async () => {
    const labels = await kubectl(`get namespace ${facts.sandboxes} -o jsonpath={.metadata.labels}`);
    expect(JSON.parse(labels)).toMatchObject({
      'pod-security.kubernetes.io/enforce': 'restricted',
    });
  });

  it('is not touched by an upgrade with a value that does not exist', async () => {
    const upgrade = helm(
      [
        'upgrade',
        release,
        chartFolder,
        '--namespace',
        facts.namespace,
        '--set',
        'gatway.replicas=3',
      ],
      chartValues(facts),
    );
    await expect(upgrade).rejects.toThrow('gatway');
    expect(await helm(['list', '--namespace', facts.namespace])).toContain(
      `conversation-operator-${previousVersion}`,
    );
  });

  it('is of the version that the upgrade begins with', () => {
    expect(readFileSync(`${chartFolder}/Chart.yaml`, 'utf8')).not.toContain(previousVersion);
  });
});
