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

/** The output of a chart, with a loose type on purpose: tests read resources of every kind. */
export class RenderedChart {
  readonly resources: readonly Body[];

  private constructor(resources: readonly Body[]) {
    this.resources = resources;
  }

  static async of(version: HelmVersion, options: RenderOptions = {}): Promise<RenderedChart> {
    const documents = parseAllDocuments(await renderChart(version, options));
    for (const { errors } of documents) if (errors[0] !== undefined) throw errors[0];
    return new RenderedChart(
      documents.flatMap((document) => resourceSchema.nullable().parse(document.toJS()) ?? []),
    );
  }

  kinds(): readonly string[] {
    return [...new Set(this.resources.map(({ kind }: Body) => String(kind)))].sort();
  }

  all(kind: string): readonly Body[] {
    return this.resources.filter((resource: Body) => resource.kind === kind);
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
