/**
 * A kind with every feature of a schema that the product's kinds have. Its group differs from run
 * to run, so that runs don't meet.
 */
export const widgetDefinition = (group: string) => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `widgets.${group}` },
  spec: {
    group,
    scope: 'Namespaced',
    names: {
      kind: 'Widget',
      listKind: 'WidgetList',
      plural: 'widgets',
      singular: 'widget',
      shortNames: ['wdg'],
      categories: ['gadgets'],
    },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: {
          status: {},
          scale: {
            specReplicasPath: '.spec.replicas',
            statusReplicasPath: '.status.replicas',
            labelSelectorPath: '.status.selector',
          },
        },
        selectableFields: [
          { jsonPath: '.spec.color' },
          { jsonPath: '.spec.size' },
          { jsonPath: '.status.phase' },
        ],
        additionalPrinterColumns: [
          {
            name: 'Color',
            type: 'string',
            jsonPath: '.spec.color',
            description: 'The appearance of the widget.',
          },
          { name: 'Size', type: 'integer', jsonPath: '.spec.size' },
          { name: 'Weight', type: 'number', jsonPath: '.spec.weight', priority: 1 },
          { name: 'Ready', type: 'boolean', jsonPath: '.status.ready' },
          { name: 'Since', type: 'date', jsonPath: '.spec.since' },
          {
            name: 'Condition',
            type: 'string',
            jsonPath: '.status.conditions[?(@.type=="Ready")].status',
          },
          { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
        ],
        schema: {
          openAPIV3Schema: { type: 'object', required: ['spec'], properties: { spec, status } },
        },
      },
    ],
  },
});

const spec = {
  type: 'object',
  description: 'What is wanted.',
  required: ['color'],
  'x-kubernetes-validations': [
    { rule: 'self.min <= self.max', message: 'min must not exceed max', fieldPath: '.min' },
    { rule: 'self.color == oldSelf.color', message: 'color is immutable', fieldPath: '.color' },
  ],
  properties: {
    color: { type: 'string', maxLength: 10, enum: ['red', 'green', 'blue'] },
    size: { type: 'integer', minimum: 1, maximum: 100, default: 5 },
    weight: { type: 'number', minimum: 0 },
    label: { type: 'string', minLength: 2, maxLength: 10, pattern: '^[a-z]+$' },
    since: { type: 'string', format: 'date-time' },
    replicas: { type: 'integer', format: 'int32', minimum: 0, default: 1 },
    min: { type: 'integer', default: 0 },
    max: { type: 'integer', default: 10 },
    port: { 'x-kubernetes-int-or-string': true },
    secret: { type: 'string', maxLength: 100 },
    enabled: { type: 'boolean', default: true },
    open: {
      type: 'object',
      'x-kubernetes-preserve-unknown-fields': true,
      properties: { known: { type: 'object', properties: { a: { type: 'string' } } } },
    },
    attributes: {
      type: 'object',
      maxProperties: 3,
      additionalProperties: { type: 'string', maxLength: 5 },
    },
    nested: {
      type: 'object',
      default: {},
      properties: { level: { type: 'integer', default: 3 }, note: { type: 'string' } },
    },
    ports: {
      type: 'array',
      maxItems: 10,
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['port', 'protocol'],
      items: {
        type: 'object',
        required: ['port'],
        properties: {
          port: { type: 'integer', minimum: 1, maximum: 65_535 },
          protocol: { type: 'string', default: 'TCP' },
          name: { type: 'string', maxLength: 20 },
        },
        'x-kubernetes-validations': [{ rule: "self.protocol != 'ICMP'", message: 'has no ports' }],
      },
    },
    tags: { type: 'array', maxItems: 4, items: { type: 'string' } },
    steps: { type: 'array', minItems: 1, items: { type: 'string' } },
    box: { type: 'object', properties: { a: { type: 'string' }, b: { type: 'string' } } },
    quantity: { 'x-kubernetes-int-or-string': true, pattern: '^[0-9]+[KMG]i$' },
  },
};

const status = {
  type: 'object',
  properties: {
    ready: { type: 'boolean' },
    replicas: { type: 'integer' },
    selector: { type: 'string' },
    phase: { type: 'string', enum: ['New', 'Old'] },
    conditions: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['type'],
      items: {
        type: 'object',
        required: ['type', 'status'],
        properties: {
          type: { type: 'string' },
          status: { type: 'string' },
          reason: { type: 'string' },
        },
      },
    },
  },
};
