"""Make the tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make orders and lines."""
    op.create_table(
        "orders",
        sa.Column("id", sa.Uuid(), primary_key=True),
        sa.Column("shop", sa.String(), nullable=False),
        sa.Column("buyer", sa.String(), nullable=False),
    )
    op.create_table(
        "lines",
        sa.Column("id", sa.Uuid(), primary_key=True),
        sa.Column("order_id", sa.Uuid(), sa.ForeignKey("orders.id"), nullable=False),
        sa.Column("product", sa.String(), nullable=False),
        sa.Column("cents", sa.Integer(), nullable=False),
    )


def downgrade() -> None:
    """Drop both."""
    op.drop_table("lines")
    op.drop_table("orders")
