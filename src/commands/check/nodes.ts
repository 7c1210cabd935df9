import { nodes, type Node } from '@conversation-operator/kube/core';
import {
  errorOf,
  FindingCode,
  NotTried,
  outcomeOf,
  warningOf,
  type Finding,
  withValue,
  type Check,
  type Installation,
} from './check.ts';
import { runtimeClasses } from './resources.ts';

export interface ArchitectureFacts extends Installation {
  /** Nodes that match the node selector of the template. */
  readonly nodes: readonly Node[];
  readonly images: readonly string[];
}

/** Schedulable nodes whose labels have all entries of a node selector. */
export const selectedNodes = (
  all: readonly Node[],
  selector: Readonly<Record<string, string>> = {},
): readonly Node[] =>
  all.filter(
    ({ metadata, spec }) =>
      spec?.unschedulable !== true &&
      Object.entries(selector).every(([name, value]) => metadata.labels?.[name] === value),
  );

const architectureOf = ({ status }: Node): string => status?.nodeInfo?.architecture ?? 'unknown';

export function architectureFindings(facts: ArchitectureFacts): readonly Finding[] {
  const wrong = facts.nodes.filter((node) => !facts.images.includes(architectureOf(node)));
  if (wrong.length === 0) return [];
  const kinds = [...new Set(wrong.map(architectureOf))].join(', ');
  const cause = `${wrong.length} of ${facts.nodes.length} nodes for sandboxes have the architecture ${kinds}; the images have ${facts.images.join(' and ')}.`;
  const [first = 'amd64'] = facts.images;
  const remedy = withValue(
    facts,
    `--set-string 'defaultTemplate.nodeSelector.kubernetes\\.io/arch=${first}'`,
  );
  return wrong.length === facts.nodes.length
    ? [
        errorOf(FindingCode.architectureUnsupported, {
          cause,
          remedy,
          breaks: 'No sandbox starts: images can not be pulled, or end with "exec format error".',
        }),
      ]
    : [
        warningOf(FindingCode.architectureUnsupported, {
          cause,
          remedy,
          breaks: 'Sandboxes on these nodes end in ImagePullFailed or CrashLoop.',
        }),
      ];
}

export const architectureCheck: Check = {
  name: 'architecture',
  limitMs: 15_000,
  needsApiServer: true,
  run: async (scene, signal) => {
    const template = await scene.template();
    const { items } = await scene.client.list(nodes, { signal });
    const { spec } = template.spec.podTemplate;
    const selected = selectedNodes(items, spec?.nodeSelector);
    if (selected.length === 0)
      throw new NotTried(
        `none of ${items.length} nodes is for sandboxes: none has the labels of the template, or none takes pods`,
      );
    const images = scene.images.architectures;
    const there = [...new Set(selected.map(architectureOf))].join(', ');
    return outcomeOf(
      architectureFindings({ ...scene, nodes: selected, images }),
      `${selected.length} ${selected.length === 1 ? 'node' : 'nodes'} of ${there}`,
    );
  },
};

export interface RuntimeClassFacts extends Installation {
  readonly wanted: string;
  readonly names: readonly string[];
}

export const runtimeClassFindings = (facts: RuntimeClassFacts): readonly Finding[] =>
  facts.names.includes(facts.wanted)
    ? []
    : [
        errorOf(FindingCode.referenceNotFound, {
          cause: `The template names a runtime class that does not exist: ${facts.wanted}; there ${facts.names.length === 0 ? 'is none' : `are: ${facts.names.join(', ')}`}.`,
          breaks: 'Starts end in ReferenceNotFound.',
          remedy: withValue(
            facts,
            `--set defaultTemplate.runtimeClassName=${facts.names[0] ?? ''}`,
          ),
        }),
      ];

export const runtimeClassCheck: Check = {
  name: 'runtime-class',
  limitMs: 15_000,
  needsApiServer: true,
  run: async (scene, signal) => {
    const template = await scene.template();
    const wanted = template.spec.podTemplate.spec?.runtimeClassName;
    if (wanted === undefined) return outcomeOf([], 'the template names none');
    const { items } = await scene.client.list(runtimeClasses, { signal });
    const names = items.map(({ metadata }) => metadata.name);
    return outcomeOf(runtimeClassFindings({ ...scene, wanted, names }), `${wanted} exists`);
  },
};
