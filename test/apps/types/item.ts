export interface Item {
  id: string
  tags?: string[]
  kind: 'a' | 'b'
  parent?: Item
}
