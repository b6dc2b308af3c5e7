import { defineConfig } from 'vitest/config'

export default defineConfig({
  root: import.meta.dirname,
  test: { globals: true, include: ['saver.test.js'], testTimeout: 20_000 },
})
