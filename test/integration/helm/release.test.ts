import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { helmVersions } from '../../../helm/tools/binaries.ts';
import { writeChart } from '../../../helm/tools/release.ts';
import { helm } from '../../../helm/tools/render.ts';
import { definitions } from '../../../src/resources/crd.ts';

const folder = mkdtempSync(join(tmpdir(), 'release-'));
const chart = join(folder, 'conversation-operator');
const source = 'https://git.example/agents/conversation-operator';
beforeAll(() => writeChart(chart, 'registry.example/agents', source));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.each(helmVersions)('the chart of a release, by Helm %i,', (version) => {
  it('passes the linter, and is packaged', async () => {
    await expect(helm(version, ['lint', '--strict', chart])).resolves.toContain(
      '0 chart(s) failed',
    );
    await expect(helm(version, ['package', chart, '--destination', folder])).resolves.toContain(
      '.tgz',
    );
  });

  it('takes every image from the registry', async () => {
    const text = await helm(version, [
      'template',
      'release',
      chart,
      '--api-versions',
      'conversation-operator.dev/v1alpha1',
    ]);
    // The images of SandboxTemplates are in the variable INITIAL_OBJECTS of the operator.
    const images = [...text.matchAll(/ image: "?([^\s"]+)/g)].map(
      ([, image = '']) => image.split(':')[0],
    );
    expect(new Set(images)).toEqual(
      new Set([
        'registry.example/agents/conversation-operator',
        'registry.example/agents/conversation-operator-agent',
      ]),
    );
  });
});

it('the chart of a release describes itself to Artifact Hub', () => {
  const { annotations, home } = parse(readFileSync(join(chart, 'Chart.yaml'), 'utf8')) as {
    readonly annotations: Readonly<Record<string, string>>;
    readonly home: string;
  };
  expect(home).toBe(source);
  expect(parse(annotations['artifacthub.io/crds'] ?? '')).toMatchObject(
    definitions.map(({ kind }) => ({ kind, displayName: kind })),
  );
  expect(annotations['artifacthub.io/license']).toBe('Apache-2.0');
});
