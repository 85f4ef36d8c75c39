"""The search task: does an index find documents by queries whose answers are known (known-item search)?"""
