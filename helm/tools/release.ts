import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse, stringify as yamlOf } from 'yaml';
import { z } from 'zod';
import { crdOf, definitions } from '../../src/resources/crd.ts';
import { parseChangelog, type Release } from './changelog.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const chart = 'helm/conversation-operator';
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

const asYaml = (value: unknown): string => yamlOf(value, { lineWidth: 0 });

const packageSchema = z.object({ version: z.string() });
const chartSchema = z.looseObject({
  version: z.string(),
  appVersion: z.string(),
  annotations: z.record(z.string(), z.string()),
});
const chartYaml = () => chartSchema.parse(parse(read(`${chart}/Chart.yaml`)));

export const releases = (): readonly Release[] => parseChangelog(read('CHANGELOG.md'));

/** Every place that names the version of the project, with the versions that it names. */
export function versions(): ReadonlyMap<string, string> {
  const packages = [
    '.',
    ...z.object({ workspaces: z.array(z.string()) }).parse(JSON.parse(read('package.json')))
      .workspaces,
  ];
  const { version, appVersion } = chartYaml();
  const newest = releases().find(({ date }) => date !== undefined);
  const imageTag = /\/conversation-operator(?:-\w+)?:(\d+\.\d+\.\d+)/g;
  return new Map([
    ...packages.map((path): [string, string] => [
      join(path, 'package.json'),
      packageSchema.parse(JSON.parse(read(join(path, 'package.json')))).version,
    ]),
    ['package-lock.json', packageSchema.parse(JSON.parse(read('package-lock.json'))).version],
    ['Chart.yaml version', version],
    ['Chart.yaml appVersion', appVersion],
    ...(newest === undefined ? [] : [['CHANGELOG.md', newest.version] as const]),
    ...['README.md', 'docs/install.md', 'manifests/examples/openhands.yaml'].flatMap((path) =>
      [...read(path).matchAll(imageTag)].map(([image, tag = '']): [string, string] => [
        `${path}: ${image}`,
        tag,
      ]),
    ),
  ]);
}

/**
 * The differences between a tag and the version that each place names; a tag also needs its section
 * in the changelog.
 */
export function faultsOf(tag: string): readonly string[] {
  const named = [...versions()].flatMap(([place, version]) =>
    `v${version}` === tag ? [] : [`${place} has ${version}`],
  );
  return releases().some(({ version }) => `v${version}` === tag)
    ? named
    : [...named, `CHANGELOG.md has no section for ${tag}`];
}

/** The section of a release in the changelog. */
export function notesOf(tag: string, list = releases()): string {
  const release = list.find(({ version }) => `v${version}` === tag);
  if (release === undefined) throw new Error(`CHANGELOG.md has no section for ${tag}`);
  return release.notes;
}

/** Annotations that Artifact Hub reads. A signature of cosign beside the chart needs none. */
export function annotationsOf(
  registry: string,
  version: string,
  list = releases(),
): Readonly<Record<string, string>> {
  const image = (name: string, suffix = '') => ({
    name,
    image: `${registry}/conversation-operator${suffix}:${version}`,
  });
  const changes = list.find((release) => release.version === version)?.changes ?? [];
  return {
    'artifacthub.io/images': asYaml([
      image('operator'),
      image('agent', '-agent'),
      image('openhands', '-openhands'),
    ]),
    'artifacthub.io/changes': asYaml(
      changes.map(({ kind, text }) => ({ kind: kind.toLowerCase(), description: text })),
    ),
    'artifacthub.io/crds': asYaml(
      definitions.map((definition) => ({
        kind: definition.kind,
        version: crdOf(definition).spec.versions[0]?.name,
        name: crdOf(definition).metadata.name,
        displayName: definition.kind,
        description: definition.description,
      })),
    ),
  };
}

/**
 * Copies the chart into a folder, with the images of a registry as its defaults, and with the
 * annotations of its release.
 */
export function writeChart(folder: string, registry: string, source?: string): void {
  cpSync(join(root, chart), folder, { recursive: true });
  const values = read(`${chart}/values.yaml`).replace(
    /^( +repository: )(?=conversation-operator)/gm,
    `$1${registry}/`,
  );
  writeFileSync(join(folder, 'values.yaml'), values);
  const { annotations, ...rest } = chartYaml();
  const origin = source === undefined ? {} : { home: source, sources: [source] };
  writeFileSync(
    join(folder, 'Chart.yaml'),
    asYaml({
      ...rest,
      ...origin,
      annotations: { ...annotations, ...annotationsOf(registry, rest.version) },
    }),
  );
}

const usage = `usage: node_modules/.bin/node helm/tools/release.ts COMMAND
  check TAG                         fail unless every place names the version of the tag
  notes TAG                         print the section of the changelog
  chart FOLDER REGISTRY [SOURCE]    write the chart as it is released`;

function main([command, first = '', second = '', third]: readonly string[]): void {
  switch (command) {
    case 'check': {
      const faults = faultsOf(first);
      if (faults.length > 0)
        throw new Error(`The tag ${first} does not fit:\n${faults.join('\n')}`);
      return;
    }
    case 'notes':
      process.stdout.write(notesOf(first));
      return;
    case 'chart':
      writeChart(first, second, third);
      return;
    default:
      throw new Error(usage);
  }
}

if (import.meta.main) {
  try {
    main(process.argv.slice(2));
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
}
