import type { Config } from 'jest';

const config: Config = {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '\\.ts$': ['@swc/jest', { jsc: { target: 'es2024', parser: { syntax: 'typescript' } }, module: { type: 'es6' }, sourceMaps: 'inline' }],
  },
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/.data/', '<rootDir>/.cache/'],
  testTimeout: 20_000,
  maxWorkers: 2,
  // Modules of a test file, and simulated processes that were killed, are never freed: some gigabytes over all files.
  workerIdleMemoryLimit: '1200MB',
  reporters: ['default', '<rootDir>/test/support/summary-reporter.ts'],
};

export default config;
