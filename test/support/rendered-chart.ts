/* oxlint-disable
  @typescript-eslint/no-unsafe-member-access,
  @typescript-eslint/no-unsafe-assignment,
  @typescript-eslint/no-unsafe-return --
  Resources are of every kind; a wrong guess fails the test. */
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import type { HelmVersion } from '../../helm/tools/binaries.ts';
import { renderChart, type RenderOptions } from '../../helm/tools/render.ts';
import type { Body } from './plane.ts';

const resourceSchema = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string() }),
});

const documentsOf = (text: string): readonly Body[] => {
  const documents = parseAllDocuments(text);
  for (const { errors } of documents) if (errors[0] !== undefined) throw errors[0];
  return documents.flatMap((document) => resourceSchema.nullable().parse(document.toJS()) ?? []);
};

/** The value of a container's variable, as Kubernetes expands it. */
const variableOf = ({ spec }: Body, name: string): string => {
  const env: readonly Body[] = spec.template.spec.containers[0].env;
  return String(env.find((each: Body) => each.name === name)?.value ?? '').replaceAll(
    '$$',
    () => '$',
  );
};

/** The output of a chart, with a loose type on purpose: tests read resources of every kind. */
export class RenderedChart {
  /** The resources of the release. */
  readonly resources: readonly Body[];
  /** The objects that the operator makes of the values. */
  readonly initialObjects: readonly Body[];

  private constructor(resources: readonly Body[]) {
    this.resources = resources;
    this.initialObjects = resources
      .filter(
        ({ kind, metadata }: Body) =>
          kind === 'Deployment' && String(metadata.name).endsWith('-operator'),
      )
      .flatMap((operator) => documentsOf(variableOf(operator, 'INITIAL_OBJECTS')));
  }

  static async of(version: HelmVersion, options: RenderOptions = {}): Promise<RenderedChart> {
    return new RenderedChart(documentsOf(await renderChart(version, options)));
  }

  kinds(): readonly string[] {
    return [...new Set(this.resources.map(({ kind }: Body) => String(kind)))].sort();
  }

  /** The objects of a kind, also those that the operator makes. */
  all(kind: string): readonly Body[] {
    return [...this.resources, ...this.initialObjects].filter(
      (resource: Body) => resource.kind === kind,
    );
  }

  /** The one of that kind whose name ends so. */
  one(kind: string, ending = ''): Body {
    const found = this.all(kind).filter(({ metadata }: Body) =>
      String(metadata.name).endsWith(ending),
    );
    if (found.length !== 1) throw new Error(`${found.length} of kind ${kind} end with "${ending}"`);
    return found[0];
  }

  /** The pods of Deployments, and those of tests. */
  podSpecs(): readonly Body[] {
    return [
      ...this.all('Deployment').map(({ spec }: Body) => spec.template.spec),
      ...this.all('Pod').map(({ spec }: Body) => spec),
    ];
  }

  /** The plain variables of a Deployment's container. */
  environment(ending: string): Record<string, string> {
    const env: readonly Body[] = this.one('Deployment', ending).spec.template.spec.containers[0]
      .env;
    return Object.fromEntries(env.map(({ name, value }: Body) => [String(name), String(value)]));
  }
}
