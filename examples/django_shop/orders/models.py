"""What the shop remembers."""

from django.db import models


class Order(models.Model):
    email = models.EmailField()
    amount = models.DecimalField(max_digits=8, decimal_places=2)
    receipt = models.TextField(blank=True)


class Report(models.Model):
    """Written by the schedule."""

    text = models.TextField()
